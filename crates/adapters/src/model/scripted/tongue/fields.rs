//! The fields of a request, read with their types; what is unknown or of another type is refused in OpenAI's words.

use serde_json::{Map, Value};

use super::super::vendor::VendorError;

/// A request's body.
pub(super) struct Fields(pub(super) Map<String, Value>);

/// The type that a field must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Any,
    Array,
    Boolean,
    Number,
    Object,
    String,
}

impl Kind {
    pub(super) fn of(value: &Value) -> &'static str {
        match value {
            Value::Null => "null",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::String(_) => "a string",
            Value::Array(_) => "an array",
            Value::Object(_) => "an object",
        }
    }

    fn fits(self, value: &Value) -> bool {
        match self {
            Self::Any => true,
            Self::Array => value.is_array(),
            Self::Boolean => value.is_boolean(),
            Self::Number => value.is_number(),
            Self::Object => value.is_object(),
            Self::String => value.is_string(),
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Any => "anything",
            Self::Array => "an array",
            Self::Boolean => "a boolean",
            Self::Number => "a number",
            Self::Object => "an object",
            Self::String => "a string",
        }
    }
}

impl Fields {
    pub(super) fn parse(body: &[u8]) -> Result<Self, VendorError> {
        let value: Value = serde_json::from_slice(body).map_err(|_| {
            let message = "We could not parse the JSON body of your request: a JSON object is expected.";
            VendorError { code: None, ..VendorError::bad_request("", None, message) }
        })?;
        match value {
            Value::Object(fields) => Ok(Self(fields)),
            other => Err(wrong_type("body", Kind::Object, &other)),
        }
    }

    /// A field that must be there.
    pub(super) fn required(&self, name: &str, kind: Kind) -> Result<&Value, VendorError> {
        optional(&self.0, name, kind)?.ok_or_else(|| {
            VendorError::bad_request(
                "missing_required_parameter",
                Some(name),
                format!("Missing required parameter: '{name}'."),
            )
        })
    }

    /// A field that may be there.
    pub(super) fn optional(&self, name: &str, kind: Kind) -> Result<Option<&Value>, VendorError> {
        optional(&self.0, name, kind)
    }

    /// The model's name.
    pub(super) fn model(&self) -> Result<String, VendorError> {
        let model = self.required("model", Kind::String)?.as_str().unwrap_or_default();
        if model.is_empty() {
            return Err(VendorError::bad_request("invalid_value", Some("model"), "you must provide a model parameter"));
        }
        Ok(model.to_owned())
    }

    pub(super) fn stream(&self) -> Result<bool, VendorError> {
        Ok(self.optional("stream", Kind::Boolean)?.and_then(Value::as_bool).unwrap_or(false))
    }

    /// Refuses what is neither `read` nor of the `others`, which make no difference here.
    pub(super) fn check_others(&self, read: &[&str], others: &[(&str, Kind)]) -> Result<(), VendorError> {
        for (name, value) in &self.0 {
            if read.contains(&name.as_str()) {
                continue;
            }
            let Some((_, kind)) = others.iter().find(|(known, _)| known == name) else { return Err(unknown(name)) };
            if !value.is_null() && !kind.fits(value) {
                return Err(wrong_type(name, *kind, value));
            }
        }
        Ok(())
    }
}

pub(super) fn optional<'a>(
    fields: &'a Map<String, Value>,
    name: &str,
    kind: Kind,
) -> Result<Option<&'a Value>, VendorError> {
    match fields.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(value) if kind.fits(value) => Ok(Some(value)),
        Some(value) => Err(wrong_type(name, kind, value)),
    }
}

/// Refuses fields that are not of the `known`.
pub(super) fn only(place: &str, fields: &Map<String, Value>, known: &[&str]) -> Result<(), VendorError> {
    match fields.keys().find(|name| !known.contains(&name.as_str())) {
        Some(name) => Err(unknown(&format!("{place}.{name}"))),
        None => Ok(()),
    }
}

pub(super) fn unknown(name: &str) -> VendorError {
    VendorError::bad_request("unknown_parameter", Some(name), format!("Unknown parameter: '{name}'."))
}

pub(super) fn wrong_type(name: &str, kind: Kind, value: &Value) -> VendorError {
    let (expected, got) = (kind.name(), Kind::of(value));
    let message = format!("Invalid type for '{name}': expected {expected}, but got {got} instead.");
    VendorError::bad_request("invalid_type", Some(name), message)
}
