//! Whatever goes wrong in a run.

use super::{World, WorldEvent};
use crate::faults::Violation;
use crate::faults::disk::AppendFault;
use crate::faults::fault::{Fault, jump, lasting};
use warpyard_core::pool::{DeviceInfo, DeviceState};
use warpyard_core::{AttemptId, JobId, Span, TaskId};

impl World {
    pub(super) fn fault(&mut self) -> Result<(), Violation> {
        if self.calm {
            return Ok(());
        }
        let fault = Fault::any(&mut self.random);
        let machine = self.random.below(self.machines.len() as u64) as usize;
        self.held.faults += 1;
        self.line(|| format!("trouble: {fault:?} (m{machine}, if it is about a machine)"));
        match fault {
            Fault::ServerDies if self.server.is_some() => self.server_is_gone(),
            Fault::ServerDies => {}
            Fault::DiesBeforeCommit => self.disk.next = AppendFault::Refused,
            Fault::TornWrite => self.disk.next = AppendFault::Torn,
            Fault::DiesAfterCommit => self.disk.next = AppendFault::KeptUnsaid,
            Fault::AgentDies => {
                self.machines[machine].kill_agent();
                let lasts = lasting(&mut self.random);
                self.enter(lasts, WorldEvent::AgentStarts(machine));
            }
            Fault::MachineDies => {
                self.machines[machine].go_down();
                let lasts = lasting(&mut self.random);
                self.enter(lasts, WorldEvent::MachineStarts(machine));
            }
            Fault::Cut => {
                self.machines[machine].cut = true;
                let lasts = lasting(&mut self.random);
                self.enter(lasts, WorldEvent::Healed(machine));
            }
            Fault::Device(state) => self.lose_device(machine, state)?,
            Fault::NewDevice => self.change_device(machine)?,
            Fault::ClockJumps => {
                let by = jump(&mut self.random);
                self.clock_off += by;
                if by > 0 {
                    self.jumped = self.now;
                }
                self.line(|| format!("the server's clock is set by {} s", by as f64 / 1e6));
            }
        }
        let next = Span::from_secs(self.random.exponential(self.rates.fault.secs()));
        self.enter(next, WorldEvent::Fault);
        Ok(())
    }

    fn lose_device(&mut self, machine: usize, state: DeviceState) -> Result<(), Violation> {
        let index = self.random.below(self.machines[machine].info.devices.len() as u64) as usize;
        self.machines[machine].device(index).state = state;
        if state == DeviceState::Gone {
            self.fail_on(machine, index)?;
        }
        let lasts = lasting(&mut self.random);
        self.enter(lasts, WorldEvent::DeviceReturns { machine, index });
        Ok(())
    }

    /// What ran on a device that is gone fails.
    fn fail_on(&mut self, machine: usize, index: usize) -> Result<(), Violation> {
        let uuid = self.machines[machine].info.devices[index].uuid.clone();
        let on_it = |attempt: &AttemptId| {
            let placement = self.ledger.placement(*attempt)?;
            let infos = &self.committed.worker(placement.worker)?.info.devices;
            let mut uuids = placement.devices.iter().map(|&(i, _)| &infos[usize::from(i)].uuid);
            uuids.any(|u| *u == uuid).then_some(())
        };
        let ids: Vec<_> = self.machines[machine].processes().filter(|id| on_it(id).is_some()).collect();
        self.on(machine, |m, now, book, out| m.fail_on(now, &ids, book, out))
    }

    /// While a machine had no agent, another log may have used it, and left something running. It may go by the name of an
    /// attempt that the server has given to this machine, for that log numbered its jobs from 1 as well.
    pub(super) fn leave_stranger(&mut self, machine: usize) -> Result<(), Violation> {
        if self.calm || self.random.unit() < 0.7 || !self.machines[machine].may_have_strangers() {
            return Ok(());
        }
        let worker = self.committed.worker_named(&self.machines[machine].info.name);
        let placed = worker.into_iter().flat_map(|worker| self.committed.desired(worker));
        let fresh = placed.map(|d| d.attempt).find(|attempt| !self.ledger.has_begun(*attempt));
        let some = TaskId { job: JobId(1 + self.random.below(9)), node: 0, index: 0 }.attempt(1);
        let name = fresh.unwrap_or(some);
        let ends = self.now + Span::from_secs(self.random.exponential(30.0));
        self.line(|| format!("m{machine}: another log left {name} running"));
        self.on(machine, |m, _, _, out| m.leave_stranger(name, ends, out))
    }

    /// A device is taken out and another put in.
    fn change_device(&mut self, machine: usize) -> Result<(), Violation> {
        if self.machines[machine].info.devices.len() >= 6 {
            return Ok(());
        }
        self.fail_on(machine, 0)?;
        let m = &mut self.machines[machine];
        let old = m.info.devices.remove(0);
        let uuid = format!("{}'", old.uuid);
        m.info.devices.push(DeviceInfo { uuid, state: DeviceState::Usable, ..old.clone() });
        m.taken_out.push(old);
        Ok(())
    }
}
