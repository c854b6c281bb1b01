//! Fault injection: draws faults at random intervals, applies them, and schedules their repair.

use super::{World, WorldEvent};
use crate::faults::Violation;
use crate::faults::disk::AppendFault;
use crate::faults::fault::{Fault, clock_jump, duration};
use warpyard_core::pool::{DeviceInfo, DeviceState};
use warpyard_core::{AttemptId, JobId, Span, TaskId};

impl World {
    /// Injects one fault and schedules the next.
    pub(super) fn inject_fault(&mut self) -> Result<(), Violation> {
        if self.calm {
            return Ok(());
        }
        let fault = Fault::random(&mut self.random);
        let machine = self.random.below(self.machines.len() as u64) as usize;
        self.stats.faults += 1;
        self.line(|| format!("fault: {fault:?} (m{machine}, if it concerns a machine)"));
        match fault {
            Fault::ServerCrash if self.server.is_some() => self.crash_server(),
            Fault::ServerCrash => {}
            Fault::CrashBeforeCommit => self.disk.next = AppendFault::Refused,
            Fault::TornWrite => self.disk.next = AppendFault::Torn,
            Fault::CrashAfterCommit => self.disk.next = AppendFault::CrashAfterCommit,
            Fault::AgentCrash => {
                self.machines[machine].kill_agent();
                if self.random.unit() < 0.2 {
                    self.line(|| format!("m{machine}: the record of its session is lost"));
                    self.machines[machine].lose_session();
                }
                let lasts = duration(&mut self.random);
                self.schedule(lasts, WorldEvent::AgentStarts(machine));
            }
            Fault::MachineCrash => {
                self.machines[machine].go_down();
                let lasts = duration(&mut self.random);
                self.schedule(lasts, WorldEvent::MachineStarts(machine));
            }
            Fault::Cut => {
                self.machines[machine].cut = true;
                let lasts = duration(&mut self.random);
                self.schedule(lasts, WorldEvent::Healed(machine));
            }
            Fault::Device(state) => self.lose_device(machine, state)?,
            Fault::DeviceReplaced => self.replace_device(machine)?,
            Fault::ClockJump => {
                let by = clock_jump(&mut self.random);
                self.clock_offset += by;
                if by > 0 {
                    self.jumped = self.now;
                }
                self.line(|| format!("the server's clock is set by {} s", by as f64 / 1e6));
            }
        }
        let next = Span::from_secs(self.random.exponential(self.rates.mean_interval.secs()));
        self.schedule(next, WorldEvent::Fault);
        Ok(())
    }

    fn lose_device(&mut self, machine: usize, state: DeviceState) -> Result<(), Violation> {
        let index = self.random.below(self.machines[machine].info.devices.len() as u64) as usize;
        self.machines[machine].device(index).state = state;
        if state == DeviceState::Gone {
            self.fail_on(machine, index)?;
        }
        let lasts = duration(&mut self.random);
        self.schedule(lasts, WorldEvent::DeviceReturns { machine, index });
        Ok(())
    }

    /// Ends the processes on a failed device.
    fn fail_on(&mut self, machine: usize, index: usize) -> Result<(), Violation> {
        let uuid = self.machines[machine].info.devices[index].uuid.clone();
        let on_it = |attempt: &AttemptId| {
            let placement = self.ledger.placement(*attempt)?;
            let infos = &self.committed.worker(placement.worker)?.info.devices;
            let mut uuids = placement.devices.iter().map(|&(i, _)| &infos[usize::from(i)].uuid);
            uuids.any(|u| *u == uuid).then_some(())
        };
        let ids: Vec<_> = self.machines[machine].processes().filter(|id| on_it(id).is_some()).collect();
        self.on(machine, |m, now, scripts, effects| m.fail_on(now, &ids, scripts, effects))
    }

    /// Leaves a foreign process behind: while a machine had no agent, a server with another log may have used it. The process may
    /// have the id of an attempt that this server has placed here, because that log numbers its jobs from 1 as well.
    pub(super) fn leave_foreign(&mut self, machine: usize) -> Result<(), Violation> {
        if self.calm || self.random.unit() < 0.7 || !self.machines[machine].may_have_foreign() {
            return Ok(());
        }
        let worker = self.committed.worker_named(&self.machines[machine].info.name);
        let placed = worker.into_iter().flat_map(|worker| self.committed.desired(worker));
        let fresh = placed.map(|d| d.attempt).find(|attempt| !self.ledger.has_begun(*attempt));
        let some = TaskId { job: JobId(1 + self.random.below(9)), node: 0, index: 0 }.attempt(1);
        let name = fresh.unwrap_or(some);
        let ends = self.now + Span::from_secs(self.random.exponential(30.0));
        self.line(|| format!("m{machine}: another log left {name} running"));
        self.on(machine, |m, _, _, effects| m.leave_foreign(name, ends, effects))
    }

    /// Replaces a device by another.
    fn replace_device(&mut self, machine: usize) -> Result<(), Violation> {
        if self.machines[machine].info.devices.len() >= 6 {
            return Ok(());
        }
        self.fail_on(machine, 0)?;
        let m = &mut self.machines[machine];
        let old = m.info.devices.remove(0);
        let uuid = format!("{}'", old.uuid);
        m.info.devices.push(DeviceInfo { uuid, state: DeviceState::Usable, ..old.clone() });
        m.removed_devices.push(old);
        Ok(())
    }
}
