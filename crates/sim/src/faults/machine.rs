//! A machine: its devices, the supervisors with their processes and files, and the agent. What should be made so is
//! worked out by the worker's own [`reconcile`]; the agent around it keeps the rules of the live one: it does nothing
//! before the server spoke, keeps nothing that is not in the supervisors' files, and with a lease ends what may run
//! elsewhere before that lapses. Files and processes outlive the agent, but not the machine.

use super::people::Brief;
use std::collections::BTreeMap;
use warpyard_core::cluster::Want;
use warpyard_core::event::{End, How, Usage, WorkerInfo};
use warpyard_core::pool::{DeviceInfo, DeviceState};
use warpyard_core::protocol::{Assignment, Assignments, Standing};
use warpyard_core::reconcile::{Action, Local, patience, reconcile};
use warpyard_core::spec::default_grace;
use warpyard_core::{AttemptId, Span, Time};

/// How long an attempt may take to begin before it is launched again, as in the live agent.
const BEGINS_WITHIN: Span = Span(20_000_000);

/// How long the files of an attempt stay after the server knew its end.
const RETIRED_AFTER: Span = Span(15_000_000);

pub(super) struct Machine {
    pub(super) info: WorkerInfo,
    /// Devices it once had.
    pub(super) taken_out: Vec<DeviceInfo>,
    /// Counts how often it came up; what was under way before it went down is void.
    pub(super) boot: u32,
    pub(super) up: bool,
    supervised: BTreeMap<AttemptId, Supervised>,
    pub(super) agent: Option<Agent>,
    /// Counts agents; messages to an earlier one reach nobody.
    pub(super) session: u32,
    /// Whether messages get through.
    pub(super) cut: bool,
    /// Whether nobody has watched over the lease since the server was last heard.
    pub(super) unwatched: bool,
}

/// An attempt as its supervisor has it.
#[derive(Default)]
struct Supervised {
    want: Option<Want>,
    is: Stage,
}

#[derive(Default)]
enum Stage {
    /// There are files, but nothing to begin.
    #[default]
    NotStarted,
    /// A launch is on its way, or was lost.
    Planned(Brief),
    Alive(Process),
    Over(End),
}

struct Process {
    brief: Brief,
    /// Running time until it ends by itself, counted from `since`.
    left: Span,
    ran: Span,
    since: Time,
    frozen: bool,
    /// When something happens to it by itself; other alarms are void.
    alarm: Option<Time>,
    /// Whether it was asked to end.
    asked: bool,
}

#[derive(Default)]
pub(super) struct Agent {
    /// The server's latest word; none until it spoke, or when it was silent for too long.
    word: Option<BTreeMap<AttemptId, Assignment>>,
    /// How much the server knew when it said that.
    as_of: u64,
    mine: BTreeMap<AttemptId, Is>,
    /// When the latest report was sent that the server is known to have heard.
    pub(super) confirmed: Time,
}

#[derive(Clone)]
enum Is {
    Beginning(Time),
    Running,
    Frozen,
    Over(End),
}

/// What a machine makes happen.
#[derive(Default)]
pub(super) struct Out {
    /// Things due later.
    pub(super) later: Vec<(Time, Due)>,
    /// Processes that began.
    pub(super) began: Vec<AttemptId>,
    /// Processes that ended, and how.
    pub(super) ended: Vec<(AttemptId, How)>,
    /// Whether the agent has something to tell at once.
    pub(super) news: bool,
}

/// Something due on a machine.
#[derive(Clone, Debug)]
pub(super) enum Due {
    /// A supervisor has its launch.
    Begin(AttemptId),
    /// Something happens to a process by itself.
    Ring(AttemptId),
    /// The server may have been silent for too long.
    Alone,
    /// Files nobody needs are removed.
    Retire(AttemptId),
}

impl Machine {
    pub(super) fn new(info: WorkerInfo) -> Machine {
        Machine {
            info,
            taken_out: Vec::new(),
            boot: 0,
            up: true,
            supervised: BTreeMap::new(),
            agent: Some(Agent::default()),
            session: 0,
            cut: false,
            unwatched: false,
        }
    }

    /// The attempts whose processes are there, standing still or not.
    pub(super) fn processes(&self) -> impl Iterator<Item = AttemptId> + '_ {
        let alive = self.supervised.iter().filter(|(_, s)| matches!(s.is, Stage::Alive(_)));
        alive.map(|(&id, _)| id)
    }

    /// What the agent has to say of attempts; none if there is no agent.
    pub(super) fn standings(&self) -> Option<BTreeMap<AttemptId, Standing>> {
        let told = |(&id, is): (&AttemptId, &Is)| match is {
            Is::Beginning(_) => None,
            Is::Running => Some((id, Standing::Running)),
            Is::Frozen => Some((id, Standing::Frozen)),
            Is::Over(end) => Some((id, Standing::Over(end.clone()))),
        };
        Some(self.agent.as_ref()?.mine.iter().filter_map(told).collect())
    }

    /// How the devices are.
    pub(super) fn device_states(&self) -> BTreeMap<String, DeviceState> {
        self.info.devices.iter().map(|d| (d.uuid.clone(), d.state)).collect()
    }

    /// Whether nothing is left of any attempt.
    pub(super) fn is_idle(&self) -> bool {
        self.processes().next().is_none() && self.agent.as_ref().is_some_and(|a| a.mine.is_empty())
    }

    /// The agent's process dies; what runs goes on.
    pub(super) fn kill_agent(&mut self) {
        self.agent = None;
        self.session += 1;
        self.unwatched = true;
    }

    /// The agent starts again and finds what an earlier one left.
    pub(super) fn start_agent(&mut self, now: Time) {
        if self.agent.is_none() && self.up {
            let mut agent = Agent { confirmed: now, ..Agent::default() };
            let found = self.supervised.iter().filter_map(|(&id, s)| Some((id, seen(s)?)));
            agent.mine.extend(found);
            self.agent = Some(agent);
        }
    }

    /// The machine goes down, and everything on it with it.
    pub(super) fn go_down(&mut self) {
        self.kill_agent();
        self.supervised.clear();
        self.boot += 1;
        self.up = false;
    }

    /// The machine comes up again with nothing of what ran there.
    pub(super) fn come_up(&mut self, now: Time) {
        self.up = true;
        self.start_agent(now);
    }

    /// The server has spoken, knowing the report sent at `heard`.
    pub(super) fn told(
        &mut self,
        now: Time,
        word: &Assignments,
        heard: Time,
        book: impl Fn(&Assignment) -> Brief,
        out: &mut Out,
    ) {
        let Some(agent) = &mut self.agent else { return };
        agent.confirmed = agent.confirmed.max(heard);
        if let Some(lease) = self.info.lease {
            let alone = agent.confirmed + patience(lease);
            if alone <= now {
                return;
            }
            out.later.push((alone, Due::Alone));
        }
        if word.as_of < agent.as_of {
            return;
        }
        agent.as_of = word.as_of;
        agent.word = Some(word.attempts.iter().map(|a| (a.attempt, a.clone())).collect());
        self.unwatched = false;
        self.act(now, book, out);
    }

    /// The agent looks at everything, poked or not, and makes what is what should be.
    pub(super) fn look(&mut self, now: Time, book: impl Fn(&Assignment) -> Brief, out: &mut Out) {
        let Some(agent) = &mut self.agent else { return };
        for (id, is) in &mut agent.mine {
            if let Some(now_is) = self.supervised.get(id).and_then(seen)
                && !matches!(is, Is::Over(_))
            {
                *is = now_is;
            }
        }
        agent.mine.retain(|_, is| !matches!(is, Is::Beginning(at) if *at + BEGINS_WITHIN <= now));
        self.act(now, book, out);
    }

    fn act(&mut self, now: Time, book: impl Fn(&Assignment) -> Brief, out: &mut Out) {
        let Some(agent) = &mut self.agent else { return };
        let Some(word) = agent.word.clone() else { return };
        let desired: Vec<_> = word.values().map(Assignment::desired).collect();
        let local = agent.mine.iter().map(|(&id, is)| (id, is.local()));
        for action in reconcile(&desired, local) {
            match action {
                Action::Launch(id) => self.launch(now, &word[&id], &book, out),
                Action::Freeze(id) => self.want(now, id, Want::Freeze, Span::ZERO, out),
                Action::Thaw(id) => self.want(now, id, Want::Run, Span::ZERO, out),
                Action::Stop(id) => {
                    let grace = word.get(&id).map_or_else(default_grace, |a| a.grace);
                    self.want(now, id, Want::Stop, grace, out);
                }
                Action::ReportLost(id) => self.over(now, id, How::Lost("nothing of it is left".into()), out),
                Action::ReportStopped(id) => self.over(now, id, How::Stopped, out),
                Action::Forget(id) => {
                    self.agent.as_mut().expect("seen above").mine.remove(&id);
                    out.later.push((now + RETIRED_AFTER, Due::Retire(id)));
                }
            }
        }
    }

    fn launch(
        &mut self,
        now: Time,
        assignment: &Assignment,
        book: impl Fn(&Assignment) -> Brief,
        out: &mut Out,
    ) {
        let id = assignment.attempt;
        let usable = |uuid: &String| {
            self.info.devices.iter().any(|d| d.uuid == *uuid && d.state == DeviceState::Usable)
        };
        if !assignment.devices.iter().all(usable) {
            return self.over(now, id, How::Declined("a device is in use by someone else".into()), out);
        }
        let brief = book(assignment);
        let agent = self.agent.as_mut().expect("only an agent launches");
        agent.mine.insert(id, Is::Beginning(now));
        if let Some(delay) = brief.begins_after {
            out.later.push((now + delay, Due::Begin(id)));
        }
        let supervised = self.supervised.entry(id).or_default();
        // What began once does not begin again, however often it is launched.
        if matches!(supervised.is, Stage::NotStarted | Stage::Planned(_)) {
            supervised.is = Stage::Planned(brief);
            // An earlier agent may have called it off and died before the server heard of that.
            supervised.want = supervised.want.filter(|want| *want != Want::Stop);
        }
    }

    fn want(&mut self, now: Time, id: AttemptId, want: Want, grace: Span, out: &mut Out) {
        let supervised = self.supervised.entry(id).or_default();
        supervised.want = Some(want);
        if let Stage::Alive(process) = &mut supervised.is {
            process.heed(now, want, grace);
            if let Some(at) = process.alarm {
                out.later.push((at, Due::Ring(id)));
            }
        }
        self.poke(id, out);
    }

    /// Calls off what may still be on its way, and notes an end that no process had; unless one has begun meanwhile, which
    /// then ends as any other does.
    fn over(&mut self, now: Time, id: AttemptId, how: How, out: &mut Out) {
        self.want(now, id, Want::Stop, Span::ZERO, out);
        let begun = self.supervised.get(&id).and_then(seen);
        let agent = self.agent.as_mut().expect("only an agent says so");
        agent.mine.insert(id, begun.unwrap_or(Is::Over(End { how, usage: Usage::default() })));
        out.news = true;
    }

    /// Something due here happens.
    pub(super) fn happen(
        &mut self,
        now: Time,
        due: &Due,
        book: impl Fn(&Assignment) -> Brief,
        out: &mut Out,
    ) {
        match *due {
            Due::Begin(id) => self.begin(now, id, out),
            Due::Ring(id) => self.ring(now, id, out),
            Due::Alone => self.end_what_reruns(now, out),
            Due::Retire(id) => {
                let needed = self.agent.as_ref().is_none_or(|a| a.mine.contains_key(&id));
                if !needed && self.supervised.get(&id).is_some_and(|s| !matches!(s.is, Stage::Alive(_))) {
                    self.supervised.remove(&id);
                }
            }
        }
        if out.news {
            self.act(now, book, out);
        }
    }

    fn begin(&mut self, now: Time, id: AttemptId, out: &mut Out) {
        let supervised = self.supervised.entry(id).or_default();
        let Stage::Planned(brief) = &supervised.is else { return };
        if supervised.want == Some(Want::Stop) {
            supervised.is = Stage::Over(End { how: How::Stopped, usage: Usage::default() });
            out.ended.push((id, How::Stopped));
        } else {
            let mut process = Process::new(brief.clone(), now);
            if supervised.want == Some(Want::Freeze) {
                process.heed(now, Want::Freeze, Span::ZERO);
            }
            if let Some(at) = process.alarm {
                out.later.push((at, Due::Ring(id)));
            }
            supervised.is = Stage::Alive(process);
            out.began.push(id);
        }
        self.poke(id, out);
    }

    fn ring(&mut self, now: Time, id: AttemptId, out: &mut Out) {
        let Some(Supervised { is: Stage::Alive(process), .. }) = self.supervised.get(&id) else { return };
        if process.alarm == Some(now) {
            let how = process.end_by_itself(now);
            self.end(now, id, how, out);
        }
    }

    /// Nothing was heard for too long: what may run elsewhere must not go on here.
    fn end_what_reruns(&mut self, now: Time, out: &mut Out) {
        let (Some(lease), Some(agent)) = (self.info.lease, &mut self.agent) else { return };
        if agent.confirmed + patience(lease) > now {
            return;
        }
        agent.word = None;
        let reruns = self.supervised.iter().filter(|(_, s)| match &s.is {
            Stage::Planned(brief) => brief.rerun,
            Stage::Alive(process) => process.brief.rerun,
            _ => false,
        });
        for id in reruns.map(|(&id, _)| id).collect::<Vec<_>>() {
            self.end(now, id, How::Lost("contact lost".into()), out);
        }
    }

    fn end(&mut self, now: Time, id: AttemptId, how: How, out: &mut Out) {
        let supervised = self.supervised.get_mut(&id).expect("what ends is known");
        let ran = match &mut supervised.is {
            Stage::Alive(process) => {
                process.stand(now);
                process.ran
            }
            _ => Span::ZERO,
        };
        supervised.is = Stage::Over(End { how: how.clone(), usage: Usage { ran, ..Usage::default() } });
        out.ended.push((id, how));
        self.poke(id, out);
    }

    /// A device is gone: what ran on it fails.
    pub(super) fn fail_on(&mut self, now: Time, ids: &[AttemptId], out: &mut Out) {
        for &id in ids {
            self.end(now, id, How::Exited(13), out);
        }
    }

    fn poke(&mut self, id: AttemptId, out: &mut Out) {
        let Some(agent) = &mut self.agent else { return };
        if let Some(is) = agent.mine.get_mut(&id).filter(|is| !matches!(is, Is::Over(_)))
            && let Some(now_is) = self.supervised.get(&id).and_then(seen)
        {
            *is = now_is;
            out.news = true;
        }
    }

    /// The device at a place in the machine.
    pub(super) fn device(&mut self, index: usize) -> &mut DeviceInfo {
        &mut self.info.devices[index]
    }
}

impl Is {
    fn local(&self) -> Local {
        match self {
            Is::Beginning(_) => Local::Beginning,
            Is::Running => Local::Running,
            Is::Frozen => Local::Frozen,
            Is::Over(_) => Local::Over,
        }
    }
}

/// What an agent sees of an attempt in its supervisor's files.
fn seen(supervised: &Supervised) -> Option<Is> {
    match &supervised.is {
        Stage::NotStarted | Stage::Planned(_) => None,
        Stage::Alive(process) if process.frozen => Some(Is::Frozen),
        Stage::Alive(_) => Some(Is::Running),
        Stage::Over(end) => Some(Is::Over(end.clone())),
    }
}

impl Process {
    fn new(brief: Brief, now: Time) -> Process {
        let mut process = Process {
            left: brief.fate.length,
            brief,
            ran: Span::ZERO,
            since: now,
            frozen: false,
            alarm: None,
            asked: false,
        };
        process.set_alarm(now);
        process
    }

    fn allowed(&self) -> Span {
        self.brief.timeout.map_or(Span::UNKNOWN, |t| t - self.ran)
    }

    fn set_alarm(&mut self, now: Time) {
        self.alarm = Some(now + self.left.min(self.allowed()));
    }

    fn stand(&mut self, now: Time) {
        if !self.frozen {
            let ran = now.since(self.since);
            self.ran += ran;
            self.left = self.left - ran;
        }
        self.since = now;
    }

    fn heed(&mut self, now: Time, want: Want, grace: Span) {
        self.stand(now);
        match want {
            Want::Stop if self.asked => {}
            Want::Stop => {
                self.asked = true;
                let takes = if self.brief.fate.stubborn { grace } else { self.brief.dies_after.min(grace) };
                self.alarm = Some(now + takes);
            }
            Want::Freeze if !self.asked => {
                self.frozen = true;
                self.alarm = None;
            }
            Want::Run if !self.asked => {
                self.frozen = false;
                self.set_alarm(now);
            }
            Want::Freeze | Want::Run | Want::Yield => {}
        }
    }

    fn end_by_itself(&self, now: Time) -> How {
        let ran = if self.frozen { Span::ZERO } else { now.since(self.since) };
        if self.asked {
            How::Stopped
        } else if self.left - ran == Span::ZERO {
            self.brief.fate.how.clone()
        } else {
            How::TimedOut
        }
    }
}
