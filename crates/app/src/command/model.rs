//! `baton model --script FILE`: a scripted model as a server of the vendors' wire formats.

#![expect(clippy::disallowed_methods, reason = "reads the scripts that were named")]

use std::fs;
use std::path::PathBuf;

use adapters::model::Scripts;
use adapters::model::scripted::{ServeOptions, serve};
use clap::Args;
use tokio::net::TcpListener;

use crate::exit::{Exit, Refusal};
use crate::output;
use crate::process;

/// Arguments of `baton model`.
#[derive(Debug, Args)]
pub struct ModelArgs {
    /// Script, in YAML or JSON; of several the first rule that fits answers
    #[arg(long = "script", value_name = "FILE", required = true)]
    scripts: Vec<PathBuf>,
    /// Port on 127.0.0.1; 0: any that is free
    #[arg(long, value_name = "N", default_value_t = 0)]
    port: u16,
    /// Divide every delay by this; 0: no delays at all
    #[arg(long, value_name = "X", default_value_t = 1.0, value_parser = process::speed)]
    speed: f64,
}

/// Serves until it is stopped. The first line on standard output is the base URL.
///
/// # Errors
/// If a script cannot be used, or the port is taken.
pub async fn perform(args: ModelArgs) -> anyhow::Result<Exit> {
    let mut sources = Vec::new();
    for path in &args.scripts {
        let text = fs::read_to_string(path).map_err(|error| {
            Refusal::usage(format!("cannot read {}: {error}", path.display()), "name a script with --script FILE")
        })?;
        sources.push((path.display().to_string(), text));
    }
    let scripts = Scripts::read(sources.iter().map(|(place, text)| (place.as_str(), text.as_str())))
        .map_err(|error| Refusal::usage(error.to_string(), "mend the script"))?
        .at_speed(args.speed);
    let listener = TcpListener::bind(("127.0.0.1", args.port)).await.map_err(|error| {
        Refusal::failed(
            format!("cannot listen on port {}: {error}", args.port),
            "name another with --port, or 0 for any",
        )
    })?;
    let address = listener.local_addr()?;
    output::line(&format!("http://{address}/v1"))?;
    output::note("This is a scripted model for tests: it follows its script and is no AI model. Ctrl-C stops it.");
    serve(listener, scripts, ServeOptions::default(), process::stop_signal()?).await?;
    Ok(Exit::Done)
}
