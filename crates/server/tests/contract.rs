//! The committed documents are those of the code (E27): OpenAPI for the UI's types, and the schema of events.

#![expect(clippy::disallowed_methods, reason = "a snapshot is a file")]

use std::io;
use std::path::Path;

/// Compares byte for byte, or rewrites when asked to.
fn committed(path: &str, document: &serde_json::Value) -> io::Result<()> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    let now = serde_json::to_string_pretty(document)? + "\n";
    if std::env::var_os("UPDATE_SNAPSHOTS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap_or(&path))?;
        std::fs::write(&path, &now)?;
    }
    let before = std::fs::read_to_string(&path).unwrap_or_default();
    let same = before.lines().zip(now.lines()).take_while(|(a, b)| a == b).count();
    assert!(
        before == now,
        "{} is not what the code says, from line {}. If the change is meant, write it anew with\n    \
         UPDATE_SNAPSHOTS=1 cargo test -p server --test contract\n\
         and then the UI's types with\n    npm run contract (in web/)",
        path.display(),
        same + 1
    );
    Ok(())
}

#[test]
fn the_openapi_document_is_the_committed_one() -> io::Result<()> {
    committed("../../web/openapi.json", &serde_json::to_value(server::openapi())?)
}

#[test]
fn the_schema_of_events_is_the_committed_one_and_knows_every_type() -> io::Result<()> {
    let schema = server::event_schema();
    let text = schema.to_string();
    for kind in contract::Event::KINDS {
        assert!(text.contains(&format!(r#"["{kind}"]"#)), "{kind}");
    }
    assert!(!text.contains("#/components/"), "every reference is to this document");
    committed("../contract/schema/events.json", &schema)
}
