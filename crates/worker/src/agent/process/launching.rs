//! Sending launches to the spawner, and calling attempts off.

use super::ProcessExecutor;
use crate::accounts::Account;
use crate::agent::begin;
use crate::agent::devices::Watched;
use crate::agent::records;
use crate::agent::run::tell;
use crate::supervise::{AttemptDir, Delivery, DesiredRecord, Launch};
use warpyard_core::AttemptId;
use warpyard_core::agent::{LaunchRefusal, Observation};
use warpyard_core::protocol::{Assignment, LaunchSpec};
use warpyard_core::spec::default_grace;

impl ProcessExecutor {
    pub(super) fn send_launch(
        &mut self,
        assignment: &Assignment,
        devices: &Watched,
    ) -> Result<(), LaunchRefusal> {
        let Assignment { attempt: id, work: Some(work), .. } = assignment else { return Ok(()) };
        self.make_room(*id);
        let launch = self.prepare(assignment, work, devices)?;
        let dir = AttemptDir::new(launch.dir.clone());
        // An earlier agent may have called it off and died before it reported that.
        if dir.desired().is_ok_and(|want| matches!(want, Some(DesiredRecord::Stop { .. })))
            && let Err(e) = dir.write_desired(DesiredRecord::Run)
        {
            tell(format_args!("cannot say that attempt {id} is wanted again: {e}"));
        }
        self.dirs.insert(*id, dir);
        match self.spawner.launch(&launch) {
            Ok(delivery) => {
                self.launches_lost |= delivery == Delivery::SentToNewSpawner;
                Ok(())
            }
            Err(e) => Err(LaunchRefusal::Broken(e.to_string())),
        }
    }

    /// Launch message of an attempt: its program, account and limits.
    fn prepare(
        &self,
        assignment: &Assignment,
        work: &LaunchSpec,
        devices: &Watched,
    ) -> Result<Launch, LaunchRefusal> {
        let machine = &self.machine;
        let person = machine.shared_at.as_deref().map(|_| Account::for_tasks(&work.user)).transpose();
        let person = person.map_err(|why| LaunchRefusal::Impossible(why.to_string()))?;
        let uuids = &assignment.devices;
        let gpus: Vec<_> = devices.gpus().iter().filter(|g| uuids.contains(&g.uuid)).collect();
        let site = begin::LaunchSite {
            layout: &machine.layout,
            program: &machine.program,
            shared_at: machine.shared_at.as_deref(),
            person: person.as_ref(),
        };
        let mut launch = begin::launch(site, assignment.attempt, work, &gpus, devices.vendor());
        if work.claim.is_none() {
            let closed = machine.bounds.closed_to(devices.gpus(), uuids);
            begin::confine(&mut launch, &machine.bounds, work, closed);
        }
        launch.on_lost = assignment.on_lost;
        launch.grace_ms = assignment.grace.min(machine.max_grace).0.div_ceil(1000);
        launch.log_cap_bytes = work.log_size.map_or(machine.log_cap, |size| size.min(machine.log_cap));
        launch.notify = Some(machine.poke.clone());
        launch.deadlines = machine.deadlines.clone();
        Ok(launch)
    }

    /// Places an attempt's records on the disk where the file system in memory is full, and logs that once.
    fn make_room(&mut self, id: AttemptId) {
        match records::make_room(&self.machine.layout, id) {
            Ok(true) if !self.told_full => {
                self.told_full = true;
                tell(format_args!(
                    "the file system in memory that {} leads to is full: records go to the disk, and tasks start \
                     more slowly, until there is room again",
                    self.machine.layout.data().join("attempts").display()
                ));
            }
            Ok(_) => {}
            Err(e) => tell(format_args!("cannot make room for the records of attempt {id}: {e}")),
        }
    }

    /// Calls an attempt off, unless it has started unnoticed, as by a launch that an earlier agent sent.
    pub(super) fn write_off(&mut self, id: AttemptId) -> Option<Observation> {
        use crate::agent::executor::Executor;
        let begun = self.examine(id)?;
        if begun != Observation::NotStarted {
            return Some(begun);
        }
        self.make_room(id);
        let dir = AttemptDir::new(self.machine.layout.attempt_dir(id));
        // A launch that is still in flight must find that the attempt is to stop.
        let refused = std::fs::create_dir_all(dir.path()).map_err(|e| e.to_string());
        let stop = self.stop_within(default_grace());
        let refused = refused.and_then(|()| dir.write_desired(stop).map_err(|e| e.to_string()));
        if let Err(e) = refused {
            tell(format_args!("cannot call attempt {id} off: {e}"));
        }
        // A supervisor writes its record before it reads the desired state: one without a record now will find the stop.
        self.examine(id)
    }
}
