//! `baton schema`: the generated documents, for the drift check and for whoever writes a client (E27).

use clap::{Args, ValueEnum};

use crate::exit::Exit;
use crate::output;

/// Arguments of `baton schema`.
#[derive(Debug, Args)]
pub struct SchemaArgs {
    /// Which one
    #[arg(value_enum)]
    document: Document,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Document {
    /// The HTTP API, as OpenAPI 3.1
    Openapi,
    /// The events, as JSON Schema
    Events,
}

/// Prints it.
///
/// # Errors
/// Such as a closed pipe.
pub fn perform(args: &SchemaArgs) -> anyhow::Result<Exit> {
    let text = match args.document {
        Document::Openapi => serde_json::to_string_pretty(&server::openapi())?,
        Document::Events => serde_json::to_string_pretty(&server::event_schema())?,
    };
    output::line(&text)?;
    Ok(Exit::Done)
}
