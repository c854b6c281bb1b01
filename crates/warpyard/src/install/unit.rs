//! The systemd unit and the configuration beside it.

use super::Scope;
use std::path::Path;
use warpyard_worker::supervise::SUBGROUP;

/// A configuration that changes nothing and says what could be.
pub(super) const CONFIG: &str = "\
# warpyard: nothing is changed here; take the # away from a line to set what it says.

# listen = \"127.0.0.1:7700\"
# policy = \"backfill\"          # `warpyard policies` lists them
# gpus = \"auto\"
# gpu_budget = \"14GiB\"         # of each GPU's memory, what tasks may have
# tasks_per_gpu = 4
# default_timeout = \"24h\"      # of tasks that say none
# admins = \"warpyard-admins\"   # the Unix group whose members may do everything
# private = true               # people see nothing of each other's jobs
# max_processes = 4096         # of a task
# idle_after = \"30m\"           # GPUs held and not used are pointed out then
# idle_release = \"4h\"          # and taken back then
# session_idle = \"2h\"          # terminals in which nothing happens are ended then
# snapshot_limit = \"1GiB\"
# keep_events = \"30d\"
# log_cap = \"64MiB\"            # kept of each output
# log_age = \"30d\"

# [limits.everyone]            # `warpyard limits` shows what one may have
# gpus = 2
# timeout = \"24h\"
# gpu_hours = 100.0
# window = \"7d\"
# priority = 5
";

/// The unit. Hardening stops where it would reach into tasks, which inherit it: they may use the home directories, the
/// devices and the network as their users may. So no ProtectClock, which closes all other devices before systemd 253; no
/// ProtectKernelModules, with which the first CUDA program could not have its driver loaded; no LockPersonality, which
/// debuggers need.
pub(super) fn text(scope: Scope, program: &Path, config: &Path) -> String {
    let (program, config) = (program.display(), config.display());
    let (shared, target, places) = match scope {
        Scope::System => (
            " --shared",
            "multi-user.target",
            "StateDirectory=warpyard\nStateDirectoryMode=0700\nRuntimeDirectory=warpyard\nRuntimeDirectoryMode=0755\n\
             RuntimeDirectoryPreserve=yes\nLimitNOFILE=1048576\nTasksMax=infinity\nOOMPolicy=continue\n\
             ProtectHostname=yes\nProtectKernelLogs=yes\n\
             CapabilityBoundingSet=~CAP_SYS_TIME CAP_WAKE_ALARM CAP_SYS_BOOT\n",
        ),
        Scope::User => ("", "default.target", ""),
    };
    format!(
        "[Unit]\n\
         Description=warpyard, a scheduler for shared GPUs\n\
         Documentation=man:warpyard(1)\n\
         After=network.target\n\n\
         [Service]\n\
         ExecStart={program} up{shared} --config {config}\n\
         Restart=on-failure\n\
         RestartSec=1\n\
         # Tasks outlive the server: stopping it ends nobody's work, and the next start finds it again.\n\
         KillMode=process\n\
         Delegate=yes\n\
         # Beside the cgroups of tasks, not above them: only so can those limit memory. From systemd 254 on.\n\
         DelegateSubgroup={SUBGROUP}\n\
         {places}\n\
         [Install]\n\
         WantedBy={target}\n"
    )
}
