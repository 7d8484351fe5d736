//! The commands, one file each: its arguments and what it does. Nothing here knows how another command works.

pub mod backup;
pub mod cancel;
pub mod chats;
pub mod check;
pub mod doctor;
pub mod events;
pub mod export;
pub mod fork;
pub mod import;
pub mod model;
pub mod parse;
pub mod replay;
pub mod restore;
pub mod retry;
pub mod run;
pub mod runs;
pub mod schema;
pub mod server;
pub mod token;
pub mod up;
pub mod versions;
pub mod worker;

use clap::Subcommand;

use crate::exit::Exit;

/// What `baton` can be asked to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start Baton: everything in one process, on this machine alone
    Up(up::UpArgs),
    /// Serve the API, the UI and previews, and leave the work to workers; needs PostgreSQL
    Server(server::ServerArgs),
    /// Perform runs for servers on this machine or others; needs PostgreSQL
    Worker(worker::WorkerArgs),
    /// Send a message and follow what becomes of it
    Run(run::RunArgs),
    /// List chats, the one last used first
    Chats(chats::ChatsArgs),
    /// List runs, newest first
    Runs(runs::RunsArgs),
    /// Print the events of a run
    Events(events::EventsArgs),
    /// Stop a run, and say how it ended
    Cancel(cancel::CancelArgs),
    /// Do again what a run was asked, in the same chat
    Retry(retry::RetryArgs),
    /// Begin another run with the same past up to a step
    Fork(fork::ForkArgs),
    /// Tell a run again from its log, and verify what is stored of it
    Replay(replay::ReplayArgs),
    /// Write a run to a file, without its secrets, for a bug report
    Export(export::ExportArgs),
    /// Take in a run that was exported
    Import(import::ImportArgs),
    /// List what a chat's project has published
    Versions(versions::VersionsArgs),
    /// Make a project's files what they were in a version
    Restore(restore::RestoreArgs),
    /// Copy the database to a file, while it is in use
    Backup(backup::BackupArgs),
    /// Check that the database, the logs and the files are whole, while they are in use
    Check(check::CheckArgs),
    /// Read a model's response and print the protocol's frames as JSON lines
    Parse(parse::ParseArgs),
    /// Serve a scripted model over the wire formats of OpenAI, Anthropic and Gemini, for tests
    Model(model::ModelArgs),
    /// Print the owner's token, or a link that signs a browser in
    Token(token::TokenArgs),
    /// Check that everything that Baton needs is there
    Doctor(doctor::DoctorArgs),
    /// Print the OpenAPI document or the schema of events
    #[command(hide = true)]
    Schema(schema::SchemaArgs),
}

impl Command {
    /// Does it.
    ///
    /// # Errors
    /// What a person has to be told; see [`crate::exit::finish`].
    pub async fn perform(self) -> anyhow::Result<Exit> {
        match self {
            Self::Up(args) => up::perform(args).await,
            Self::Server(args) => server::perform(args).await,
            Self::Worker(args) => worker::perform(args).await,
            Self::Run(args) => run::perform(args).await,
            Self::Chats(args) => chats::perform(args).await,
            Self::Runs(args) => runs::perform(args).await,
            Self::Events(args) => events::perform(args).await,
            Self::Cancel(args) => cancel::perform(args).await,
            Self::Retry(args) => retry::perform(args).await,
            Self::Fork(args) => fork::perform(args).await,
            Self::Replay(args) => replay::perform(args).await,
            Self::Export(args) => export::perform(args).await,
            Self::Import(args) => import::perform(args).await,
            Self::Versions(args) => versions::perform(args).await,
            Self::Restore(args) => restore::perform(args).await,
            Self::Backup(args) => backup::perform(&args),
            Self::Check(args) => check::perform(args).await,
            Self::Parse(args) => parse::perform(&args),
            Self::Model(args) => model::perform(args).await,
            Self::Token(args) => token::perform(args).await,
            Self::Doctor(args) => doctor::perform(args).await,
            Self::Schema(args) => schema::perform(&args),
        }
    }

    /// Whether it judges all settings at once, and what is to be logged with them.
    pub fn judges_settings(&self) -> bool {
        matches!(
            self,
            Self::Up(_) | Self::Server(_) | Self::Worker(_) | Self::Doctor(_) | Self::Check(_) | Self::Backup(_)
        )
    }

    /// What is logged unless `BATON_LOG` says otherwise: a server tells what it does, a command only what went wrong.
    pub fn usual_log(&self) -> &'static str {
        match self {
            Self::Up(_) | Self::Server(_) | Self::Worker(_) => "info",
            _ => "warn",
        }
    }
}
