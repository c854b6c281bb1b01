//! Log output of the server and its worker: `tracing` events on standard error, quiet by default. What a command prints for
//! its user does not go through here.

use clap::builder::{PossibleValuesParser, TypedValueParser};
use std::io::{self, IsTerminal};
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt;
use warpyard_server::config::{LogFormat, LogLevel};

/// Parser of `--log-level`.
pub(crate) fn level_parser() -> impl TypedValueParser<Value = LogLevel> {
    PossibleValuesParser::new(["error", "warn", "info", "debug", "trace"]).map(|name| match &name[..] {
        "error" => LogLevel::Error,
        "warn" => LogLevel::Warn,
        "info" => LogLevel::Info,
        "debug" => LogLevel::Debug,
        _ => LogLevel::Trace,
    })
}

/// Parser of `--log-format`.
pub(crate) fn format_parser() -> impl TypedValueParser<Value = LogFormat> {
    PossibleValuesParser::new(["text", "json"]).map(|name| match &name[..] {
        "json" => LogFormat::Json,
        _ => LogFormat::Text,
    })
}

/// Installs the subscriber of this process. Only the first call counts.
pub(crate) fn init(level: LogLevel, format: LogFormat) {
    let level = match level {
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    };
    let lines = fmt().with_max_level(level).with_writer(io::stderr);
    let _installed_before = match format {
        LogFormat::Json => lines.json().flatten_event(true).try_init(),
        // The journal dates every line itself.
        LogFormat::Text if std::env::var_os("JOURNAL_STREAM").is_some() => {
            lines.with_target(false).with_ansi(false).without_time().try_init()
        }
        LogFormat::Text => lines.with_target(false).with_ansi(io::stderr().is_terminal()).try_init(),
    };
}
