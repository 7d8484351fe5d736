//! `baton doctor`: is everything there that Baton needs? Each check says what it saw and, where something is wrong, what to do.
//!
//! It changes nothing that a start would not change, and shows no secret.

#![expect(clippy::disallowed_methods, reason = "looks at the data folder and at the usual port")]

use std::net::TcpListener;
use std::path::Path;

use adapters::bus::redis::probe;
use adapters::objects::AddressedObjects;
use clap::Args;
use contract::Limits;
use contract::event::Provider;
use runtime::ports::Sandbox as _;
use runtime::ports::sandbox::{IsolationLevel, IsolationReport};
use serde::Serialize;

use crate::client::{ClientArgs, http, is_alive};
use crate::config::{ModelSetting, OWNER_TOKEN, Raw, Settings};
use crate::data::{self, DataDir};
use crate::exit::Exit;
use crate::node::{self, OLDEST};
use crate::{compose, config, output, show, template};

/// Free space below which a project or two would fill the disk, in bytes.
const DISK_LEAST: u64 = 2 * 1024 * 1024 * 1024;

/// Arguments of `baton doctor`.
#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// List the limits in force instead
    #[arg(long)]
    limits: bool,
    /// Ask the model's server whether it takes the key and has the model, which costs nothing
    #[arg(long)]
    confirm: bool,
    #[command(flatten)]
    client: ClientArgs,
}

/// How a check ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    /// As it should be.
    Fine,
    /// Something to know; Baton works.
    Note,
    /// Baton does not work, or not safely.
    Bad,
}

/// One check.
#[derive(Debug, Serialize)]
struct Check {
    name: &'static str,
    verdict: Verdict,
    seen: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fix: Vec<String>,
}

impl Check {
    fn fine(name: &'static str, seen: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Fine, seen: seen.into(), fix: Vec::new() }
    }

    fn note(name: &'static str, seen: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Note, seen: seen.into(), fix: vec![fix.into()] }
    }

    fn bad(name: &'static str, seen: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { name, verdict: Verdict::Bad, seen: seen.into(), fix: vec![fix.into()] }
    }
}

/// Checks.
///
/// # Errors
/// Such as a closed pipe. What is wrong with Baton is no error of this command, but its exit code is 1.
pub async fn perform(args: DoctorArgs) -> anyhow::Result<Exit> {
    let data = args.client.data()?;
    let settings = Raw::default().with_surroundings(&data)?.resolve();
    if args.limits {
        return limits(&settings.map_err(|faults| config::refusal(&faults))?.limits, args.client.json);
    }
    let mut checks = vec![folder(&data), token(&data), disk(&data)];
    let running = running(&data).await;
    match &settings {
        Ok(settings) => {
            checks.push(port(settings.port, running.as_deref()));
            checks.extend(
                settings.warnings.iter().map(|warning| Check::note("settings", warning, "see `baton up --help`")),
            );
            checks.extend(shared(settings, &data).await);
            checks.push(model(settings, args.confirm).await);
            checks.push(prepared(settings, &data));
        }
        Err(faults) => checks.extend(
            faults
                .iter()
                .map(|fault| Check::bad("settings", format!("{}: {}", fault.place, fault.what), fault.fix.as_str())),
        ),
    }
    checks.push(found_node().await);
    checks.extend(isolation(&data, settings.as_ref().ok()).await);
    show_all(&checks, args.client.json)?;
    Ok(if checks.iter().any(|check| check.verdict == Verdict::Bad) { Exit::Failed } else { Exit::Done })
}

fn show_all(checks: &[Check], json: bool) -> std::io::Result<()> {
    if json {
        return checks.iter().try_for_each(output::json);
    }
    for check in checks {
        let mark = match check.verdict {
            Verdict::Fine => "✓",
            Verdict::Note => "!",
            Verdict::Bad => "✗",
        };
        output::line(&format!("{mark} {:<10} {}", check.name, check.seen))?;
        check.fix.iter().try_for_each(|fix| output::line(&format!("             {fix}")))?;
    }
    Ok(())
}

fn limits(limits: &Limits, json: bool) -> anyhow::Result<Exit> {
    let rows = limits.rows();
    if json {
        rows.iter().try_for_each(output::json)?;
        return Ok(Exit::Done);
    }
    let cells: Vec<_> = rows
        .iter()
        .map(|row| [row.name.to_owned(), row.value.to_string(), row.unit.to_owned(), row.what.to_owned()])
        .collect();
    output::table(["LIMIT", "VALUE", "UNIT", "BOUNDS"], &cells)?;
    Ok(Exit::Done)
}

fn folder(data: &DataDir) -> Check {
    let path = data.path().display();
    if let Err(error) = data.make() {
        return Check::bad("data", format!("{error:#}"), "name a folder of your own with --data DIR");
    }
    let trial = data.path().join(".doctor");
    let written = std::fs::write(&trial, b"").and_then(|()| std::fs::remove_file(&trial));
    match (written, data::mode(data.path())) {
        (Err(error), _) => {
            Check::bad("data", format!("{path} cannot be written: {error}"), format!("chown -R $USER '{path}'"))
        }
        (_, Ok(Some(mode))) if mode & 0o077 != 0 => {
            Check::note("data", format!("{path} can be read by others (mode {mode:o})"), format!("chmod 700 '{path}'"))
        }
        _ => Check::fine("data", path.to_string()),
    }
}

fn token(data: &DataDir) -> Check {
    if config::environment(OWNER_TOKEN).is_some() {
        return match config::owner_token(data) {
            Ok(_) => Check::fine("token", format!("*** ({OWNER_TOKEN})")),
            Err(error) => Check::bad("token", format!("{error:#}"), "without it, the data folder's token counts"),
        };
    }
    let path = data.token_path();
    match data::mode(&path) {
        Ok(None) => Check::fine("token", "none yet; the first start makes it"),
        Ok(Some(0o600 | 0o400)) => Check::fine("token", format!("{} (readable by you alone)", path.display())),
        Ok(Some(mode)) => Check::bad(
            "token",
            format!("{} can be read by others (mode {mode:o}): whoever has it owns this Baton", path.display()),
            format!("chmod 600 '{0}', or delete it and start Baton again for a new one", path.display()),
        ),
        Err(error) => Check::bad("token", error.to_string(), "run this command as the user that runs Baton"),
    }
}

fn disk(data: &DataDir) -> Check {
    // The folder itself, or what it would be made in.
    let place = data.path().ancestors().find(|path| path.is_dir()).unwrap_or(Path::new("/"));
    match rustix::fs::statvfs(place) {
        Ok(disk) => {
            let free = disk.f_bavail.saturating_mul(disk.f_frsize);
            let seen = format!("{} free for the data folder", show::bytes(free));
            if free < DISK_LEAST {
                Check::bad("disk", seen, "make room: a project takes up to 2 GB")
            } else {
                Check::fine("disk", seen)
            }
        }
        Err(error) => Check::note("disk", format!("the free space is not known: {error}"), "look with `df`"),
    }
}

/// The address of the server that runs on the data folder.
async fn running(data: &DataDir) -> Option<String> {
    let url = data.running()?.url;
    is_alive(&http().ok()?, &url).await.then_some(url)
}

fn port(port: u16, running: Option<&str>) -> Check {
    if let Some(url) = running {
        return Check::fine("port", format!("Baton runs at {url}"));
    }
    match TcpListener::bind(("127.0.0.1", port)) {
        Ok(_) => Check::fine("port", format!("{port} is free")),
        Err(error) => Check::note("port", format!("{port}: {error}"), "start with another: `baton up --port N`"),
    }
}

/// What several processes share: whether it answers, and that it is where this process looks for it.
async fn shared(settings: &Settings, data: &DataDir) -> Vec<Check> {
    let shared = &settings.shared;
    let Some(database) = &shared.database else {
        return vec![Check::fine("database", "SQLite in the data folder (several processes need BATON_DATABASE_URL)")];
    };
    let mut checks = vec![match compose::store(shared, data, &settings.limits).await {
        Ok(kept) => {
            kept.close().await;
            Check::fine("database", format!("{database} answers"))
        }
        Err(error) => Check::bad("database", format!("{error:#}"), "see BATON_DATABASE_URL"),
    }];
    checks.push(match &shared.redis {
        None => Check::note("wake-ups", "by polling, about every second", "set BATON_REDIS_URL for wake-ups at once"),
        Some(redis) => match probe(redis.expose()).await {
            Ok(()) => Check::fine("wake-ups", format!("{redis} answers")),
            Err(what) => Check::note("wake-ups", format!("by polling: {what}"), "start it, or see BATON_REDIS_URL"),
        },
    });
    let objects = compose::objects(shared, data);
    checks.push(match AddressedObjects::local(&objects) {
        Ok(_) => Check::fine("objects", format!("{} (every process needs the same)", objects.display())),
        Err(error) => Check::bad("objects", error.to_string(), error.action()),
    });
    checks
}

/// The model as it is configured; whether its server agrees only if that was asked for, since a question to a server leaves a trace.
async fn model(settings: &Settings, confirm: bool) -> Check {
    let seen = compose::model_words(&settings.model);
    let ModelSetting::Remote { provider, .. } = &settings.model else { return Check::fine("model", seen) };
    if !confirm {
        return Check::fine("model", format!("{seen}; not asked, `baton doctor --confirm` does"));
    }
    match compose::confirm(settings).await {
        Ok(()) if *provider == Provider::Compatible => Check::fine("model", format!("{seen}; the server answers")),
        Ok(()) => Check::fine("model", format!("{seen}; the server takes the key and has the model")),
        Err(error) => Check::bad(
            "model",
            format!("{seen}: {error:#}"),
            "see BATON_MODEL, BATON_MODEL_PROVIDER, BATON_MODEL_URL and BATON_MODEL_KEY",
        ),
    }
}

fn prepared(settings: &Settings, data: &DataDir) -> Check {
    match template::find(settings.templates.as_deref(), data, &settings.limits) {
        Ok(prepared) => Check::fine("template", format!("{} in {}", prepared.template.name, prepared.folder.display())),
        Err(error) => Check::bad("template", format!("{error:#}"), "run scripts/up once"),
    }
}

async fn found_node() -> Check {
    let fix = format!("install Node {OLDEST} or newer, or run scripts/up, which fetches it");
    match node::find().await {
        Some(node) if node.is_new_enough() => {
            Check::fine("node", format!("{} ({})", node.version, node.program.display()))
        }
        Some(node) => {
            Check::note("node", format!("{} is older than {OLDEST} ({})", node.version, node.program.display()), fix)
        }
        None => Check::bad("node", "there is none: projects cannot be built", fix),
    }
}

async fn isolation(data: &DataDir, settings: Option<&Settings>) -> Vec<Check> {
    let prepared =
        settings.and_then(|settings| template::find(settings.templates.as_deref(), data, &settings.limits).ok());
    let report = match compose::sandbox(data, prepared.as_ref()).await {
        Ok(sandbox) => sandbox.report().clone(),
        Err(error) => return vec![Check::bad("sandbox", format!("{error:#}"), "see above")],
    };
    let mut checks = vec![level(&report)];
    checks.extend(report.features.into_iter().map(|feature| Check {
        name: if feature.in_force { "" } else { "missing" },
        verdict: if feature.in_force { Verdict::Fine } else { Verdict::Note },
        seen: format!("{}: {}", feature.feature, feature.detail),
        fix: Vec::new(),
    }));
    checks
}

fn level(report: &IsolationReport) -> Check {
    let reason = report.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let (verdict, word) = match report.level {
        IsolationLevel::Full => (Verdict::Fine, "full"),
        IsolationLevel::Soft => (Verdict::Note, "soft"),
        IsolationLevel::Refused => (Verdict::Bad, "refused"),
        IsolationLevel::Elsewhere => (Verdict::Note, "elsewhere"),
    };
    let seen = format!("isolation is {word}, verified by running something inside ({}){reason}", report.backend);
    Check { name: "sandbox", verdict, seen, fix: report.remedy.clone() }
}
