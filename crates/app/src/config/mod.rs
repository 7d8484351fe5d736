//! Settings: from raw (flags, environment, file) to resolved, all faults at once, secrets shown as `***` (E25).
//!
//! The only place that reads the environment. It decides nothing: which adapters follow from the settings is `compose`'s to say.

#![expect(clippy::disallowed_methods, reason = "reads the environment and the settings file")]

mod file;
mod model;
mod provider;
mod shared;

use std::fmt;
use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;

use contract::Limits;
use tracing_subscriber::EnvFilter;

use crate::data::{self, DataDir};
use crate::exit::{Exit, Refusal};

pub use model::ModelSetting;
pub use provider::words as provider_words;
pub use shared::{OWNER_TOKEN, Shared};

/// The usual port.
pub const PORT: u16 = 7420;

/// The variable that says what to log.
const LOG: &str = "BATON_LOG";

/// Variables of the environment that mean something.
pub const VARIABLES: &[(&str, &str)] = &[
    ("BATON_MODEL", "name of the model, as its server calls it; `demo` or nothing: the built-in demo"),
    (
        "BATON_MODEL_PROVIDER",
        "openai, anthropic, gemini or compatible; without it seen from the base URL, or from the key's form",
    ),
    (
        "BATON_MODEL_URL",
        "base URL of the model's server, such as http://127.0.0.1:11434/v1; without it the provider's own",
    ),
    ("BATON_MODEL_KEY", "key for that server, if it asks for one"),
    (
        "BATON_DATABASE_URL",
        "PostgreSQL database, postgres://user:password@host:5432/database; without it SQLite in the data folder",
    ),
    (
        "BATON_REDIS_URL",
        "Redis that carries wake-ups between processes, redis://:password@host:6379/0; without it they poll",
    ),
    ("BATON_OBJECTS", "folder of files and builds that all processes share; `objects` in the data folder"),
    ("BATON_PREVIEWS", "host:port below which browsers find previews; at each server's own port if nothing is said"),
    (OWNER_TOKEN, "the owner's token, where servers share no data folder: 64 hexadecimal digits"),
    (LOG, "what to log, such as `debug` or `info,runtime=debug`"),
];

/// What a process is for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Role {
    /// Server and worker in one process.
    #[default]
    Up,
    /// The doors.
    Server,
    /// The hands.
    Worker,
}

impl Role {
    /// The command that starts it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Up => "up",
            Self::Server => "server",
            Self::Worker => "worker",
        }
    }
}

/// What the variables mean, for `--help`.
pub fn help() -> String {
    let lines: Vec<_> = VARIABLES.iter().map(|(name, what)| format!("  {name}\n          {what}")).collect();
    format!("Environment (or baton.toml in the data folder; `baton doctor` checks both):\n{}", lines.join("\n"))
}

/// Settings as they were given, by source.
#[derive(Default)]
pub struct Raw {
    /// What the settings are for.
    pub role: Role,
    /// `--model`.
    pub model: Option<String>,
    /// `--model-url`.
    pub model_url: Option<String>,
    /// `--port`.
    pub port: Option<u16>,
    /// `--templates`.
    pub templates: Option<PathBuf>,
    /// The variables of [`VARIABLES`] that are set, and others that begin with `BATON_`.
    pub environment: Vec<(String, String)>,
    /// Path and text of the settings file, if there is one.
    pub file: Option<(PathBuf, String)>,
}

/// Settings in force.
#[derive(Debug, PartialEq)]
pub struct Settings {
    /// Port on 127.0.0.1; 0: any that is free.
    pub port: u16,
    /// The model.
    pub model: ModelSetting,
    /// Where templates are, if it was said.
    pub templates: Option<PathBuf>,
    /// What several processes share.
    pub shared: Shared,
    /// The limits.
    pub limits: Limits,
    /// What a person should know and what stops nothing.
    pub warnings: Vec<String>,
}

/// One thing that is wrong with the settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fault {
    /// The flag, variable, or file and key.
    pub place: String,
    /// What is wrong; never a secret.
    pub what: String,
    /// How to mend it.
    pub fix: String,
}

impl Fault {
    fn new(place: impl fmt::Display, what: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { place: place.to_string(), what: what.into(), fix: fix.into() }
    }
}

impl Raw {
    /// Adds what the environment and the settings file of the data folder say.
    ///
    /// # Errors
    /// If the file is there and cannot be read.
    pub fn with_surroundings(mut self, data: &DataDir) -> anyhow::Result<Self> {
        self.environment = std::env::vars_os()
            .filter_map(|(name, value)| Some((name.into_string().ok()?, value.to_string_lossy().into_owned())))
            .filter(|(name, value)| name.starts_with("BATON_") && !value.is_empty())
            .collect();
        let path = data.settings();
        self.file = match fs::read_to_string(&path) {
            Ok(text) => Some((path, text)),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => {
                let what = format!("cannot read {}: {error}", path.display());
                return Err(Refusal::usage(what, "make it readable for the user that runs Baton, or remove it"));
            }
        };
        Ok(self)
    }

    /// The settings in force. A flag counts before a variable, and a variable before the file.
    ///
    /// # Errors
    /// Every fault, not only the first.
    pub fn resolve(self) -> Result<Settings, Vec<Fault>> {
        let mut faults = Vec::new();
        let mut warnings: Vec<_> = self
            .environment
            .iter()
            .filter(|(name, _)| !VARIABLES.iter().any(|(known, _)| known == name))
            .map(|(name, _)| format!("the variable {name} means nothing to Baton and is ignored"))
            .collect();
        let written = match &self.file {
            Some((path, text)) => file::read(path, text, &mut faults),
            None => file::Written::default(),
        };
        if let Some((path, _)) = self.file.as_ref().filter(|_| written.holds_secret())
            && data::mode(path).ok().flatten().is_some_and(|mode| mode & 0o077 != 0)
        {
            warnings.push(format!("{} holds a secret and others can read it: `chmod 600 {0}`", path.display()));
        }
        faults.extend(self.variable(LOG).and_then(|text| read_filter(text).err()));
        let model = model::resolve(&model::Sources::of(&self, &written), &mut warnings, &mut faults);
        let shared = shared::resolve(&self, &written, &mut warnings, &mut faults);
        if !faults.is_empty() {
            return Err(faults);
        }
        Ok(Settings {
            port: self.port.or(written.port).unwrap_or(PORT),
            model,
            templates: self.templates.or(written.templates),
            shared,
            limits: written.limits,
            warnings,
        })
    }

    fn variable(&self, name: &str) -> Option<&str> {
        self.environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }
}

/// The value of a variable of the environment, if it is set to some text.
pub fn environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// The owner's token: that of the environment, or else of the data folder.
///
/// # Errors
/// If neither has one.
pub fn owner_token(data: &DataDir) -> anyhow::Result<String> {
    let Some(text) = environment(OWNER_TOKEN) else { return data.token() };
    let token = shared::owner_token_of(&text);
    let token = token.ok_or_else(|| Refusal::usage(format!("{OWNER_TOKEN}: *** is no token"), shared::TOKEN_FIX))?;
    Ok(token.expose().to_owned())
}

/// Whether there is a desktop that could show a browser.
pub fn has_display() -> bool {
    ["DISPLAY", "WAYLAND_DISPLAY"].into_iter().any(|name| environment(name).is_some())
}

/// What to log, if `BATON_LOG` says so.
///
/// # Errors
/// What is wrong with it.
pub fn log_filter() -> Result<Option<EnvFilter>, Fault> {
    environment(LOG).map(|text| read_filter(&text)).transpose()
}

fn read_filter(text: &str) -> Result<EnvFilter, Fault> {
    let fix = "write it as `info` or `warn,runtime=debug`";
    EnvFilter::try_new(text).map_err(|error| Fault::new(LOG, format!("`{text}`: {error}"), fix))
}

/// The address of a server as it was given with `--server`, without a slash at the end.
///
/// # Errors
/// If it is no address of a web server.
pub fn server_address(text: &str) -> anyhow::Result<String> {
    match model::web_address(text) {
        Ok(address) => Ok(address),
        Err(what) => Err(Refusal::usage(format!("--server {text}: {what}"), "write it as http://127.0.0.1:7420")),
    }
}

/// All faults as one error, for a person.
pub fn refusal(faults: &[Fault]) -> anyhow::Error {
    let lines = faults.iter().map(|fault| format!("  {}: {}\n    {}", fault.place, fault.what, fault.fix));
    let what = match faults.len() {
        1 => "a setting is wrong:".to_owned(),
        count => format!("{count} settings are wrong:"),
    };
    Refusal {
        exit: Exit::Usage,
        what: format!("{what}\n{}", lines.collect::<Vec<_>>().join("\n")),
        action: "Nothing was started.".into(),
    }
    .into()
}

#[cfg(test)]
mod tests {
    use adapters::model::Secret;
    use contract::event::Provider;

    use super::*;

    fn raw(environment: &[(&str, &str)], file: &str) -> Raw {
        let owned = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let file = (!file.is_empty()).then(|| (PathBuf::from("/d/baton.toml"), file.to_owned()));
        Raw { environment: environment.iter().map(owned).collect(), file, ..Raw::default() }
    }

    fn compatible(name: &str, url: &str, key: Option<&str>) -> ModelSetting {
        let provider = Provider::Compatible;
        ModelSetting::Remote { provider, name: name.into(), url: url.into(), key: key.and_then(Secret::new) }
    }

    #[test]
    fn a_flag_counts_before_a_variable_and_a_variable_before_the_file() {
        let file = "port = 1\n[model]\nname = 'f'\nurl = 'http://f/v1'\nkey = 'fk'\n[limits]\nturns_per_run = 3\n";
        let settings = raw(&[], file).resolve().unwrap();
        assert_eq!((settings.port, settings.limits.turns_per_run), (1, 3));
        assert_eq!(settings.model, compatible("f", "http://f/v1", Some("fk")));
        let mut both = raw(&[("BATON_MODEL", "e"), ("BATON_MODEL_URL", "http://127.0.0.1:1/v1/")], file);
        both.model = Some("g".into());
        both.port = Some(9);
        let settings = both.resolve().unwrap();
        // The file's key was written for the file's server and goes nowhere else.
        assert_eq!((settings.port, settings.model), (9, compatible("g", "http://127.0.0.1:1/v1", None)));
    }

    #[test]
    fn without_a_model_the_demo_works_and_a_key_alone_tells_its_provider() {
        // E2
        assert_eq!(raw(&[], "").resolve().unwrap().model, ModelSetting::Demo);
        assert_eq!(raw(&[("BATON_MODEL", "demo")], "").resolve().unwrap().model, ModelSetting::Demo);
        let table = [
            ("sk-1", Provider::Openai, "https://api.openai.com/v1"),
            ("sk-ant-1", Provider::Anthropic, "https://api.anthropic.com/v1"),
            ("AIza1", Provider::Gemini, "https://generativelanguage.googleapis.com/v1beta"),
        ];
        for (key, provider, url) in table {
            let settings = raw(&[("BATON_MODEL", "m"), ("BATON_MODEL_KEY", key)], "").resolve().unwrap();
            let expected = ModelSetting::Remote { provider, name: "m".into(), url: url.into(), key: Secret::new(key) };
            assert_eq!(settings.model, expected);
        }
    }

    #[test]
    fn a_model_that_cannot_be_reached_so_is_refused_at_boot_with_the_fix() {
        // E2
        type Row<'a> = (&'a [(&'a str, &'a str)], &'a str, &'a str, &'a str);
        let table: [Row<'_>; 6] = [
            (&[("BATON_MODEL", "m"), ("BATON_MODEL_KEY", "k")], "", "BATON_MODEL_URL", "BATON_MODEL_PROVIDER"),
            (&[("BATON_MODEL", "m"), ("BATON_MODEL_PROVIDER", "gemini")], "", "BATON_MODEL_KEY", "set it"),
            (&[("BATON_MODEL", "m"), ("BATON_MODEL_PROVIDER", "google")], "", "BATON_MODEL_PROVIDER", "gemini"),
            (
                &[("BATON_MODEL", "m"), ("BATON_MODEL_PROVIDER", "openai"), ("BATON_MODEL_KEY", "sk-ant-1")],
                "",
                "BATON_MODEL_KEY",
                "BATON_MODEL_PROVIDER=anthropic",
            ),
            (&[("BATON_MODEL_PROVIDER", "openai")], "", "BATON_MODEL", "name the model"),
            (&[], "[model]\nname = 'm'\nprovider = 'anthropic'\nkey = 'AIza1'\n", "model.key", "a key for Anthropic"),
        ];
        for (environment, file, place, fix) in table {
            let faults = raw(environment, file).resolve().unwrap_err();
            assert_eq!(faults.len(), 1, "{faults:?}");
            assert!(faults[0].place.ends_with(place) && faults[0].fix.contains(fix), "{faults:?}");
        }
        // What the file says of its own server does not count for an address from elsewhere.
        let file = "[model]\nname = 'm'\nprovider = 'anthropic'\nkey = 'sk-ant-1'\n";
        let settings = raw(&[("BATON_MODEL_URL", "http://127.0.0.1:1/v1")], file).resolve().unwrap();
        assert_eq!(settings.model, compatible("m", "http://127.0.0.1:1/v1", None));
    }

    #[test]
    fn every_fault_is_told_at_once_and_no_secret_with_it() {
        // E25
        let environment = [
            ("BATON_MODEL_URL", "localhost:11434"),
            ("BATON_MODEL_KEY", "very secret"),
            ("BATON_LOG", "runtime=loud"),
            ("BATON_DATABASE_URL", "postgres://me:very%20secret@db/baton?sslmode=maybe"),
        ];
        let file = "prot = 1\nport = 99999\n[model]\nnmae = 'x'\n[limits]\nturns_per_rum = 3\nlease_ms = 10\nmessage_bytes = -1\n";
        let faults = raw(&environment, file).resolve().unwrap_err();
        let text = refusal(&faults).to_string();
        for expected in [
            "BATON_MODEL_URL",
            "BATON_MODEL_KEY",
            "BATON_MODEL:",
            "BATON_LOG",
            "sslmode",
            "prot",
            "port",
            "nmae",
            "turns_per_rum",
            "lease_ms",
            "message_bytes",
        ] {
            assert!(text.contains(expected), "{expected}: {text}");
        }
        assert_eq!(faults.len(), 11, "{text}");
        assert!(!text.contains("very"), "{text}");
        assert_eq!(refusal(&faults).downcast_ref::<Refusal>().map(|refusal| refusal.exit), Some(Exit::Usage));
        assert_eq!(raw(&[], "port = [").resolve().unwrap_err().len(), 1);
    }

    #[test]
    fn a_secret_is_never_printed() {
        let settings = raw(&[("BATON_MODEL", "m"), ("BATON_MODEL_KEY", "sk-1")], "").resolve().unwrap();
        assert!(!format!("{settings:?}").contains("sk-1"));
    }

    #[test]
    fn a_variable_that_means_nothing_is_pointed_out() {
        let settings = raw(&[("BATON_MODLE", "m")], "").resolve().unwrap();
        assert!(settings.warnings[0].contains("BATON_MODLE"));
    }
}
