//! The contract as documents: OpenAPI 3.1 of the routes, and a JSON Schema of events alone (E27).
//!
//! Both are drawn from the types that are sent; nothing is written here that the code does not do.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use contract::problem::Problem;
use contract::{Envelope, Event};
use serde_json::{Value, json};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Content, OpenApi, Ref, RefOr, Response, ResponseBuilder};
use utoipa::{IntoResponses, Modify, OpenApi as _, PartialSchema as _, ToSchema as _};

use crate::guard::COOKIE;
use crate::reply::Code;
use crate::router;

const SCHEMAS: &str = "#/components/schemas/";

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Baton",
        version = "1",
        description = "Messages become runs, and a run is a log of events. Ids are opaque, times are milliseconds since the Unix \
            epoch, lists are paged by cursor, and errors are problem details (RFC 9457) with a stable `code` and an `action`."
    ),
    components(schemas(Envelope, Event, Problem)),
    modifiers(&Keys),
    security(("owner_token" = []), ("session" = [])),
    tags(
        (name = "chats", description = "Conversations, each with a project."),
        (name = "runs", description = "What becomes of a message."),
        (name = "projects", description = "Files and versions."),
        (name = "session", description = "Signing browsers in."),
        (name = "system", description = "What this server is."),
        (name = "operations", description = "For whoever looks after it.")
    )
)]
struct Document;

/// What opens the guarded routes.
struct Keys;

impl Modify for Keys {
    fn modify(&self, document: &mut OpenApi) {
        let components = document.components.get_or_insert_default();
        let token = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some("The owner's token.")).build();
        components.add_security_scheme("owner_token", SecurityScheme::Http(token));
        let session = ApiKeyValue::with_description(COOKIE, "A signed-in browser.");
        components.add_security_scheme("session", SecurityScheme::ApiKey(ApiKey::Cookie(session)));
    }
}

/// Every answer of a route that is not a success.
pub struct Refusals;

impl IntoResponses for Refusals {
    fn responses() -> BTreeMap<String, RefOr<Response>> {
        let content = Content::builder().schema(Some(Ref::from_schema_name("Problem"))).build();
        let refused = ResponseBuilder::new()
            .description("Refused: a problem, told by its `code`.")
            .content("application/problem+json", content)
            .build();
        BTreeMap::from([("default".to_owned(), RefOr::T(refused))])
    }
}

/// The OpenAPI document of every route.
pub fn openapi() -> OpenApi {
    let mut document = Document::openapi();
    document.merge(router::open().merge(router::guarded()).into_openapi());
    // axum marks a parameter that holds slashes; OpenAPI has no word for it.
    document.paths.paths =
        document.paths.paths.into_iter().map(|(path, item)| (path.replace("{*", "{"), item)).collect();
    let mut codes = String::from("\n\nCodes: ");
    for (nth, code) in Code::ALL.iter().enumerate() {
        let comma = if nth == 0 { "" } else { ", " };
        // Writing to a String cannot fail.
        let _ = write!(codes, "{comma}`{}` ({})", code.code(), code.status().as_u16());
    }
    document.info.description.get_or_insert_default().push_str(&(codes + "."));
    document
}

/// The JSON Schema (2020-12) of an [`Envelope`]: one event as readers get it.
pub fn event_schema() -> Value {
    let mut schemas = vec![("Event".to_owned(), Event::schema())];
    Envelope::schemas(&mut schemas);
    let definitions: BTreeMap<String, _> = schemas.into_iter().collect();
    let mut schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Envelope",
        "$ref": "#/$defs/Envelope",
        "$defs": definitions,
    });
    schema["$defs"]["Envelope"] = json!(Envelope::schema());
    localise(&mut schema);
    schema
}

/// Turns references into a document's components to references into this one.
fn localise(value: &mut Value) {
    match value {
        Value::Object(map) => {
            for (key, value) in map.iter_mut() {
                match value {
                    Value::String(text) if key == "$ref" => {
                        if let Some(name) = text.strip_prefix(SCHEMAS) {
                            *text = format!("#/$defs/{name}");
                        }
                    }
                    other => localise(other),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(localise),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
