//! The commands, one file each: its arguments and what it does. Nothing here knows how another command works.

pub mod chats;
pub mod doctor;
pub mod events;
pub mod model;
pub mod parse;
pub mod run;
pub mod runs;
pub mod schema;
pub mod token;
pub mod up;

use clap::Subcommand;

use crate::exit::Exit;

/// What `baton` can be asked to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Start Baton: everything in one process, on this machine alone
    Up(up::UpArgs),
    /// Send a message and follow what becomes of it
    Run(run::RunArgs),
    /// List chats, the one last used first
    Chats(chats::ChatsArgs),
    /// List runs, newest first
    Runs(runs::RunsArgs),
    /// Print the events of a run
    Events(events::EventsArgs),
    /// Read a model's response and print the protocol's frames as JSON lines
    Parse(parse::ParseArgs),
    /// Serve a scripted model over OpenAI's wire format, for tests
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
            Self::Run(args) => run::perform(args).await,
            Self::Chats(args) => chats::perform(args).await,
            Self::Runs(args) => runs::perform(args).await,
            Self::Events(args) => events::perform(args).await,
            Self::Parse(args) => parse::perform(&args),
            Self::Model(args) => model::perform(args).await,
            Self::Token(args) => token::perform(args).await,
            Self::Doctor(args) => doctor::perform(args).await,
            Self::Schema(args) => schema::perform(&args),
        }
    }

    /// What is logged unless `BATON_LOG` says otherwise: a server tells what it does, a command only what went wrong.
    pub fn usual_log(&self) -> &'static str {
        match self {
            Self::Up(_) => "info",
            _ => "warn",
        }
    }
}
