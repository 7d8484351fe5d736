//! What one reader has seen of a run, and whether that is the log.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use serde_json::Value;

/// Types of which adjacent ones of one stream may reach a reader as one (E21).
const DELTAS: [&str; 4] = ["text_delta", "thinking_delta", "file_delta", "tool_output"];
/// Types that end a run.
pub const ENDS: [&str; 3] = ["run_completed", "run_failed", "run_cancelled"];

/// An event: its last place and its envelope.
#[derive(Debug, Clone)]
pub struct Seen {
    pub seq: u64,
    pub json: Value,
}

impl Seen {
    pub fn kind(&self) -> &str {
        self.json["type"].as_str().unwrap_or_default()
    }

    /// Its first place: several, if deltas were joined for a reader.
    pub fn first(&self) -> u64 {
        self.json["from_seq"].as_u64().unwrap_or(self.seq)
    }

    pub fn text(&self, field: &str) -> &str {
        self.json[field].as_str().unwrap_or_default()
    }
}

/// The events of a run, in order.
#[derive(Debug, Clone)]
pub struct View {
    run: String,
    pub events: Vec<Seen>,
}

impl View {
    pub fn of(run: &str) -> Self {
        Self { run: run.to_owned(), events: vec![] }
    }

    pub fn run(&self) -> &str {
        &self.run
    }

    /// The last event that it has.
    pub fn last(&self) -> u64 {
        self.events.last().map_or(0, |event| event.seq)
    }

    pub fn ended(&self) -> bool {
        self.events.last().is_some_and(|event| ENDS.contains(&event.kind()))
    }

    pub fn has(&self, kind: &str) -> bool {
        self.events.iter().any(|event| event.kind() == kind)
    }

    /// Takes an event as it came; an error if it is not the next one.
    pub fn take(&mut self, name: &str, data: &str) -> Result<(), String> {
        let run = &self.run;
        let json: Value = serde_json::from_str(data).map_err(|error| format!("{run}: {error}: {data}"))?;
        let seq = json["seq"].as_u64().ok_or_else(|| format!("{run}: no place: {data}"))?;
        let first = json["from_seq"].as_u64().unwrap_or(seq);
        let wrong = |what: &str| Err(format!("{run}: {what}: after event {} came {data}", self.last()));
        if json["run_id"] != **run || json["stream_id"] != **run || json["type"] != *name {
            return wrong("an event of another stream or type");
        }
        if self.ended() {
            return wrong("an event after the end");
        }
        match first.cmp(&(self.last() + 1)) {
            std::cmp::Ordering::Less => return wrong("an event that was there already"),
            std::cmp::Ordering::Greater => return wrong("a gap"),
            std::cmp::Ordering::Equal if seq < first => return wrong("a place before its beginning"),
            std::cmp::Ordering::Equal => {}
        }
        self.events.push(Seen { seq, json });
        Ok(())
    }

    /// The events with all deltas joined that may be joined, and without the places that depend on it: the same for every reader.
    pub fn canonical(&self) -> Vec<Value> {
        let mut joined: Vec<Value> = vec![];
        for event in &self.events {
            let mut json = event.json.clone();
            for field in ["seq", "from_seq"] {
                json.as_object_mut().unwrap().remove(field);
            }
            match joined.last_mut() {
                Some(last) if is_delta(&json) && stream(last) == stream(&json) => {
                    let text = format!("{}{}", text_of(last), text_of(&json));
                    last["text"] = text.into();
                }
                Some(_) | None => joined.push(json),
            }
        }
        joined
    }

    /// Whether it goes on where another one ended; a delta may have grown.
    pub fn continues(&self, former: &Self) -> bool {
        let (now, then) = (self.canonical(), former.canonical());
        let Some((last, rest)) = then.split_last() else { return true };
        let grown = |now: &Value| stream(now) == stream(last) && text_of(now).starts_with(text_of(last));
        now.starts_with(rest) && now.get(rest.len()).is_some_and(|now| now == last || is_delta(now) && grown(now))
    }

    /// A number that tells this log from others.
    pub fn digest(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.canonical().iter().for_each(|event| feed(event, &mut hasher));
        hasher.finish()
    }

    /// How two views of one run differ.
    pub fn difference(&self, other: &Self) -> Option<String> {
        let (mine, theirs) = (self.canonical(), other.canonical());
        let at = mine.iter().zip(&theirs).position(|(a, b)| a != b);
        match at {
            Some(at) => Some(format!("{}: event {at} is once {} and once {}", self.run, mine[at], theirs[at])),
            None if mine.len() != theirs.len() => {
                Some(format!("{}: once {} events and once {}", self.run, mine.len(), theirs.len()))
            }
            None if self.last() != other.last() => {
                Some(format!("{}: it ends once at {} and once at {}", self.run, self.last(), other.last()))
            }
            None => None,
        }
    }
}

/// Whatever the order of an object's fields.
fn feed(value: &Value, hasher: &mut DefaultHasher) {
    match value {
        Value::Object(fields) => {
            let mut names: Vec<_> = fields.keys().collect();
            names.sort();
            for name in names {
                name.hash(hasher);
                feed(&fields[name], hasher);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| feed(item, hasher)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string().hash(hasher),
    }
    0xff_u8.hash(hasher);
}

fn is_delta(json: &Value) -> bool {
    json["type"].as_str().is_some_and(|kind| DELTAS.contains(&kind))
}

fn text_of(json: &Value) -> &str {
    json["text"].as_str().unwrap_or_default()
}

/// What tells the stream that a delta is a piece of.
fn stream(json: &Value) -> [&Value; 6] {
    ["type", "step_id", "attempt", "path", "call_id", "stream"].map(|field| &json[field])
}
