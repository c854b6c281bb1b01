//! Beginning attempts, and calling off those that cannot begin.

use super::{Agent, on_devices, tell};
use crate::agent::begin;
use crate::agent::devices::OnDevices;
use crate::agent::handle::Link;
use crate::agent::mine::{Is, Mine};
use crate::agent::records;
use crate::hold;
use crate::people::Person;
use crate::supervise::{AttemptDir, Delivery, Found, Want};
use std::time::Instant;
use warpyard_core::AttemptId;
use warpyard_core::event::{End, How, Usage};
use warpyard_core::protocol::Assignment;

impl<L: Link + 'static> Agent<L> {
    pub(super) fn launch(&mut self, id: AttemptId) {
        let Some(Assignment { work: Some(work), devices: uuids, grace, holds_for, .. }) =
            self.assigned.get(&id).cloned()
        else {
            return;
        };
        // Not to be taken for someone else on its own devices.
        if self.adopt(id) {
            return;
        }
        let taken = {
            let mut ours = on_devices(&self.mine);
            // What a claim is for may be on the device already.
            ours.extend(holds_for.map(|held| OnDevices {
                attempt: id,
                uuids: &uuids,
                pids: hold::family(held),
            }));
            self.devices.check(&uuids, &ours).map(str::to_owned)
        };
        if let Some(uuid) = taken {
            return self.over(id, How::Declined(format!("{uuid} is in use by someone else")));
        }
        let shared_at = self.settings.shared_at.as_deref();
        let person = match shared_at.map(|_| Person::to_run_as(&work.user)).transpose() {
            Ok(person) => person,
            Err(why) => return self.over(id, How::NotStarted(why.to_string())),
        };
        self.make_room(id);
        let mut launch = {
            let devices = self.devices.seen();
            let gpus: Vec<_> = devices.gpus().iter().filter(|g| uuids.contains(&g.uuid)).collect();
            let at = begin::Place {
                layout: &self.settings.layout,
                program: &self.settings.program,
                shared_at: self.settings.shared_at.as_deref(),
                person: person.as_ref(),
            };
            begin::launch(at, id, &work, &gpus, devices.vendor())
        };
        if work.claim.is_none() {
            let closed = self.settings.bounds.closed_to(self.devices.seen().gpus(), &uuids);
            begin::confine(&mut launch, &self.settings.bounds, &work, closed);
        }
        launch.grace_ms = grace.min(self.settings.max_grace).0.div_ceil(1000);
        launch.log_cap_bytes =
            work.log_size.map_or(self.settings.log_cap, |size| size.min(self.settings.log_cap));
        launch.poke = Some(self.poke.clone());
        let dir = AttemptDir::new(launch.dir.clone());
        // An earlier agent may have called it off and died before the server heard of that.
        if dir.want().is_ok_and(|want| matches!(want, Some(Want::Stop { .. })))
            && let Err(e) = dir.write_want(Want::Run)
        {
            tell(format_args!("cannot say that attempt {id} is wanted again: {e}"));
        }
        match self.spawner.launch(&launch) {
            Ok(delivery) => {
                let is = Is::Beginning(Instant::now());
                self.mine.insert(id, Mine { dir, is, uuids, holds_for });
                if delivery == Delivery::SentToNewSpawner {
                    self.launch_again();
                }
            }
            Err(e) => self.over(id, How::Declined(format!("the worker cannot start anything: {e}"))),
        }
    }

    /// Has an attempt's records go to the disk where the file system in memory is full, and tells of that once.
    fn make_room(&mut self, id: AttemptId) {
        match records::make_room(&self.settings.layout, id) {
            Ok(true) if !self.told_full => {
                self.told_full = true;
                tell(format_args!(
                    "the file system in memory that {} leads to is full: records go to the disk, and tasks start \
                     more slowly, until there is room again",
                    self.settings.layout.data().join("attempts").display()
                ));
            }
            Ok(_) => {}
            Err(e) => tell(format_args!("cannot make room for the records of attempt {id}: {e}")),
        }
    }

    /// A spawner died: what it had not begun is not known to be lost, and beginning it twice is impossible.
    pub(super) fn launch_again(&mut self) {
        let beginning: Vec<_> = self.mine.iter().filter(|(_, m)| matches!(m.is, Is::Beginning(_))).collect();
        let lost: Vec<_> = beginning.into_iter().map(|(&id, _)| id).collect();
        for id in lost {
            self.mine.remove(&id);
        }
    }

    /// Notes an end that no process of ours had; unless one has begun behind our back, which then ends as any other does.
    pub(super) fn over(&mut self, id: AttemptId, how: How) {
        if self.adopt(id) {
            return;
        }
        self.make_room(id);
        let dir = AttemptDir::new(self.settings.layout.attempt_dir(id));
        // Should a launch still be on its way, it must find that it is not wanted any more.
        let refused = std::fs::create_dir_all(dir.path()).map_err(|e| e.to_string());
        let refused = refused.and_then(|()| dir.write_want(self.stop(id)).map_err(|e| e.to_string()));
        if let Err(e) = refused {
            tell(format_args!("cannot call attempt {id} off: {e}"));
        }
        // A supervisor says that it is there before it reads what is wanted: one not seen now will find that nothing is.
        if !self.adopt(id) {
            self.note(id, dir, Is::Over(End { how, usage: Usage::default() }));
        }
    }

    /// Takes over what has begun behind our back, as by a launch that an earlier agent sent; tells whether something has.
    fn adopt(&mut self, id: AttemptId) -> bool {
        let dir = AttemptDir::new(self.settings.layout.attempt_dir(id));
        let found = match dir.look() {
            Ok(Found::NotStarted) => return false,
            Ok(found) => found,
            Err(e) if e.is_damage() => {
                let is = self.give_up(id, &dir, &e);
                self.note(id, dir, is);
                return true;
            }
            Err(e) => {
                tell(format_args!("cannot read how attempt {id} is: {e}"));
                return false;
            }
        };
        match self.recognise(id, &dir, found) {
            Ok(is) => self.note(id, dir, is),
            // Tried again until it succeeds: until then its devices are not free.
            Err(e) => tell(format_args!("cannot end what is left of attempt {id}: {e}")),
        }
        true
    }
}
