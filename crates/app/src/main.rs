//! `baton`: the switchboard. Reads the command line, resolves settings, chooses adapters and runs one command.
//!
//! It holds no logic of runs: that is `runtime`'s and `engine`'s. Where a line is printed, a file opened or a process started
//! outside the sandbox, it is in this crate.

mod client;
mod command;
mod compose;
mod config;
mod data;
mod exit;
mod node;
mod output;
mod process;
mod show;
mod template;
mod watch;

use std::io::IsTerminal as _;
use std::process::ExitCode;

use clap::Parser as _;
use tracing_subscriber::EnvFilter;

use crate::command::Command;
use crate::exit::Exit;

/// A sentence becomes a running app: a self-hosted agent runtime.
#[derive(Debug, clap::Parser)]
#[command(name = "baton", version, arg_required_else_help = true, max_term_width = 110)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

fn main() -> ExitCode {
    // The sandbox starts this program again as its launcher, which has to be single-threaded: nothing may come before.
    adapters::sandbox::local::launcher_entry();
    let cli = Cli::parse();
    exit::finish(perform(cli.command))
}

fn perform(command: Command) -> anyhow::Result<Exit> {
    start_log(&command)?;
    // One provider of TLS, chosen here, for every client of this process. An error says that it is chosen already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(command.perform())
}

fn start_log(command: &Command) -> anyhow::Result<()> {
    let filter = match config::log_filter() {
        Ok(filter) => filter.unwrap_or_else(|| EnvFilter::new(command.usual_log())),
        // Told with everything else that is wrong.
        Err(_) if command.judges_settings() => EnvFilter::new(command.usual_log()),
        Err(fault) => return Err(config::refusal(&[fault])),
    };
    // What goes into a file is read without a terminal.
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_ansi(std::io::stderr().is_terminal());
    log.with_writer(std::io::stderr).with_target(false).init();
    Ok(())
}
