//! What the HTTP interface asks and answers, one type for each JSON shape. Others rely on these: fields are only ever
//! added. Events and stored state have types of their own elsewhere, so that neither holds the other back.

mod claim;
mod job;
mod limits;
mod machine;
mod notice;
mod policy;
mod preview;
mod replay;
mod request;
mod simulation;
mod snapshot;
mod speeds;
mod time;
mod why;

pub use claim::{Adopt, ClaimRequest, ClaimState, ClaimView, Extend};
pub use job::{
    AttemptView, Counts, FailureReason, HistoryRow, JobView, Outcome, OutcomeCounts, OverRequest, RunView,
    State, TaskView, TerminalView,
};
pub use limits::LimitView;
pub use machine::{
    Enforced, EnforcementView, ForeignProcess, FreeGpu, FreeView, GpuTask, GpuView, InfoView, LoginView,
    ProcessBound, ProofView, WorkerState, WorkerView,
};
pub use notice::Notice;
pub use policy::{Moved, NotAPolicy, ParamValue, ParamView, PolicyPreview, PolicySet, PolicyView};
pub use preview::{Alternative, DocumentText, DocumentView, Preview};
pub use replay::{
    Agreement, ReplayAsk, ReplayResult, ReplayState, ReplayTold, ReplayView, ResultKind, Spread,
};
pub use request::{
    Acted, CancelFilter, HistoryFilter, JobFilter, JobOrder, LogFilter, LogStream, Page, Priority,
    ProblemBody, Rebuilt, Retry, Shutdown, StateFilter, Submit, Submitted, TerminalSize,
};
pub use simulation::{SimulationSet, SimulationView};
pub use snapshot::{Announced, SnapshotView};
pub use speeds::{Noted, Progress, Throughput, Throughputs};
pub use time::Timestamp;
pub use why::{Ahead, FreeDevice, Needs, Sooner, StartRange, WhyView};
