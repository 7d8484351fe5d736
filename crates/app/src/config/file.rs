//! The settings file: `baton.toml` in the data folder. Unknown keys are refused, so that a typing error is seen.
//!
//! It checks form and range; what settings mean together is judged where they are resolved.
//!
//! ```toml
//! port = 7420
//! templates = "/usr/local/share/baton/templates"
//! # What several processes share; `baton up` alone needs none of it.
//! database = "postgres://user:password@host:5432/database"
//! redis = "redis://:password@host:6379/0"
//! objects = "/srv/baton/objects"
//! previews = "localhost:7420"
//! [model]
//! name = "qwen3-coder"
//! provider = "compatible"    # or openai, anthropic, gemini; without it seen from the URL or the key
//! url = "http://127.0.0.1:11434/v1"
//! key = "…"
//! [limits]                  # `baton doctor --limits` lists them
//! turns_per_run = 20
//! ```

use std::path::{Path, PathBuf};

use contract::Limits;
use toml::{Table, Value};

use super::Fault;

/// Limits that may be 0, which switches off what they count.
const MAY_BE_ZERO: &[&str] = &["nudges_per_run", "fix_rounds"];

/// What the file says.
#[derive(Default)]
pub struct Written {
    pub port: Option<u16>,
    pub templates: Option<PathBuf>,
    pub database: Option<String>,
    pub redis: Option<String>,
    pub objects: Option<String>,
    pub previews: Option<String>,
    pub model: WrittenModel,
    pub limits: Limits,
}

/// What the file says about the model.
#[derive(Default)]
pub struct WrittenModel {
    pub name: Option<String>,
    pub provider: Option<String>,
    pub url: Option<String>,
    pub key: Option<String>,
}

/// Reads the file and adds what is wrong with it to `faults`.
pub fn read(path: &Path, text: &str, faults: &mut Vec<Fault>) -> Written {
    let mut written = Written::default();
    let table = match text.parse::<Table>() {
        Ok(table) => table,
        Err(error) => {
            let line = error.span().map_or(1, |span| text[..span.start.min(text.len())].lines().count().max(1));
            faults.push(Fault::new(
                format_args!("{}:{line}", path.display()),
                error.message(),
                "mend the file, or remove it",
            ));
            return written;
        }
    };
    let mut reader = Reader { path, faults };
    for (key, value) in table {
        match key.as_str() {
            "port" => {
                let port = value.as_integer().and_then(|port| u16::try_from(port).ok());
                written.port = reader.some(&key, port, "write a number from 0 to 65535");
            }
            "templates" => written.templates = reader.text(&key, &value).map(PathBuf::from),
            "database" => written.database = reader.text(&key, &value),
            "redis" => written.redis = reader.text(&key, &value),
            "objects" => written.objects = reader.text(&key, &value),
            "previews" => written.previews = reader.text(&key, &value),
            "model" => written.model = reader.model(value),
            "limits" => written.limits = reader.limits(value),
            _ => reader.unknown(&key, "port, templates, database, redis, objects, previews, [model], [limits]"),
        }
    }
    written
}

struct Reader<'a> {
    path: &'a Path,
    faults: &'a mut Vec<Fault>,
}

impl Reader<'_> {
    fn fault(&mut self, key: &str, what: impl Into<String>, fix: impl Into<String>) {
        self.faults.push(Fault::new(format_args!("{}, {key}", self.path.display()), what, fix));
    }

    fn unknown(&mut self, key: &str, known: &str) {
        self.fault(key, "is no setting", format!("the settings are: {known}"));
    }

    fn some<T>(&mut self, key: &str, value: Option<T>, fix: &str) -> Option<T> {
        if value.is_none() {
            self.fault(key, "has a value that it cannot have", fix);
        }
        value
    }

    fn text(&mut self, key: &str, value: &Value) -> Option<String> {
        self.some(key, value.as_str().map(str::to_owned), "write a text in quotes")
    }

    fn model(&mut self, value: Value) -> WrittenModel {
        let mut model = WrittenModel::default();
        let Value::Table(table) = value else {
            self.fault(
                "model",
                "is no table",
                "write [model] on a line of its own, and name, provider, url and key below it",
            );
            return model;
        };
        for (key, value) in table {
            match key.as_str() {
                "name" => model.name = self.text("model.name", &value),
                "provider" => model.provider = self.text("model.provider", &value),
                "url" => model.url = self.text("model.url", &value),
                "key" => model.key = self.text("model.key", &value),
                _ => self.unknown(&format!("model.{key}"), "name, provider, url, key"),
            }
        }
        model
    }

    fn limits(&mut self, value: Value) -> Limits {
        let mut map = serde_json::Map::new();
        let Value::Table(table) = value else {
            self.fault("limits", "is no table", "write [limits] on a line of its own, and the limits below it");
            return Limits::default();
        };
        let known = Limits::default().rows();
        for (key, value) in table {
            let name = format!("limits.{key}");
            let Some(row) = known.iter().find(|row| row.name == key) else {
                self.fault(&name, "is no limit", "`baton doctor --limits` lists them");
                continue;
            };
            let least = u64::from(!MAY_BE_ZERO.contains(&row.name));
            let number =
                value.as_integer().and_then(|number| u64::try_from(number).ok()).filter(|number| *number >= least);
            let fix = format!("write a whole number of {}, at least {least}; the default is {}", row.unit, row.value);
            if let Some(number) = self.some(&name, number, &fix) {
                map.insert(key, number.into());
            }
        }
        // Every name and value was looked at above.
        let limits: Limits = serde_json::from_value(map.into()).unwrap_or_default();
        if limits.lease_ms <= limits.heartbeat_ms + limits.lease_margin_ms {
            let fix = "a claim has to outlive a heartbeat and the margin: lease_ms > heartbeat_ms + lease_margin_ms";
            self.fault("limits.lease_ms", "is too short", fix);
        }
        limits
    }
}
