//! Wire types of the HTTP API, one for each JSON shape. Clients rely on them: fields are only ever added. Events and
//! stored state have types of their own, so that neither constrains the other.

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
mod throughput;
mod time;
mod token;
mod why;

pub use claim::{AdoptRequest, ClaimRequest, ClaimState, ClaimView, ExtendRequest};
pub use job::{
    AttemptView, FailureReason, HistoryRow, JobView, MemoryOveruse, Outcome, OutcomeCounts, ProgramView,
    State, StateCounts, TaskView, TerminalView,
};
pub use limits::LimitView;
pub use machine::{
    AvailabilityView, EnforcementView, ForeignProcess, GpuAvailability, GpuTask, GpuView, InfoView,
    LimitEnforcement, LoginView, ProcessLimit, ProofView, WorkerDevice, WorkerState, WorkerView,
};
pub use notice::Notice;
pub use policy::{ParamValue, ParamView, PolicyPreview, PolicySpec, PolicySpecError, PolicyView, QueueMove};
pub use preview::{Alternative, DocumentText, DocumentView, Preview};
pub use replay::{
    Agreement, Distribution, ReplayInput, ReplayRequest, ReplayResult, ReplayState, ReplayView, ResultKind,
};
pub use request::{
    ActionResult, CancelOptions, HistoryFilter, JobFilter, JobOrder, LogFilter, LogStream, Page,
    PriorityRequest, ProblemBody, RebuildResult, RetryRequest, ShutdownRequest, StateFilter, SubmitReply,
    SubmitRequest, TerminalSize,
};
pub use simulation::{SimulationUpdate, SimulationView};
pub use snapshot::{SnapshotUpload, SnapshotView};
pub use throughput::{Progress, ProgressReply, Throughput, Throughputs};
pub use time::Timestamp;
pub use token::{
    JoinReply, JoinRequest, LogGeneration, TlsView, TokenReply, TokenRequest, TokenRole, TokenView,
    WorkerIdentity, WorkerSettings,
};
pub use why::{
    EstimateBasis, EstimateRequest, EstimateSource, EstimateView, FreeDevice, Needs, StartRange, Suggestion,
    TaskAhead, WhyView,
};
