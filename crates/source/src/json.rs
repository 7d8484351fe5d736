//! A JSON file as a module: its value as `default`, and its members under their names, as Vite does it.

use std::collections::BTreeSet;
use std::fmt;

use oxc::syntax::identifier::is_identifier_name;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::problem::Code;
use crate::script::Fault;

/// What was read of a JSON file.
#[derive(Debug, Default)]
pub(crate) struct Json {
    /// The names that it exports apart from `default`.
    pub names: BTreeSet<String>,
    pub faults: Vec<Fault>,
}

impl Json {
    pub(crate) fn read(text: &str) -> Self {
        let mut reader = serde_json::Deserializer::from_str(without_mark(text));
        match reader.deserialize_any(Members).and_then(|names| reader.end().map(|()| names)) {
            Ok(names) => Self { names, faults: vec![] },
            Err(error) => {
                let before: usize = text.split_inclusive('\n').take(error.line().saturating_sub(1)).map(str::len).sum();
                let at = u32::try_from(before + error.column().saturating_sub(1)).unwrap_or(u32::MAX);
                let message = format!("this is not JSON: {error}");
                Self {
                    names: BTreeSet::new(),
                    faults: vec![Fault { code: Code::SyntaxError, message, at, certain: false }],
                }
            }
        }
    }

    /// The module for browsers.
    pub(crate) fn module(&self, text: &str) -> String {
        let mut code = format!("const json = JSON.parse({});\nexport default json;\n", string(without_mark(text)));
        for (index, name) in self.names.iter().enumerate() {
            code.push_str(&format!(
                "const member{index} = json[{0}];\nexport {{ member{index} as {name} }};\n",
                string(name)
            ));
        }
        code
    }
}

/// A text as a literal of JavaScript. JSON is one since ES2019.
pub(crate) fn string(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

fn without_mark(text: &str) -> &str {
    text.strip_prefix('\u{feff}').unwrap_or(text)
}

/// Collects an object's keys without building values, however deep they are.
struct Members;

impl<'de> Visitor<'de> for Members {
    type Value = BTreeSet<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut names = BTreeSet::new();
        while let Some(name) = map.next_key::<String>()? {
            map.next_value::<IgnoredAny>()?;
            if is_identifier_name(&name) && name != "default" {
                names.insert(name);
            }
        }
        Ok(names)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(BTreeSet::new())
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(BTreeSet::new())
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(BTreeSet::new())
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(BTreeSet::new())
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(BTreeSet::new())
    }

    fn visit_str<E>(self, _: &str) -> Result<Self::Value, E> {
        Ok(BTreeSet::new())
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(BTreeSet::new())
    }
}
