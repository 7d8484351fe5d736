//! Opening: many at once, newer schemas, other programs' tables, and what errors say.

use adapters::store::postgres::{OpenError, Postgres, check_database};
use futures::future::join_all;
use runtime::ports::Store;
use sim::conformance::store::Clerk;
use sim::servers;

use super::room::{exact, is_whole, open};

/// The newest schema.
const NEWEST: &str = "1";

async fn refused(url: &str) -> OpenError {
    match Postgres::open(url, &exact()).await {
        Err(error) => error,
        Ok(_) => panic!("it opened"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_many_who_open_an_empty_database_one_makes_the_schema() {
    let server = servers::Postgres::start();
    let url = server.url();
    let options = exact();
    let stores = join_all((0..8).map(|_| open(&url, &options))).await;
    assert_eq!(server.ask(&url, "SELECT string_agg(version::text, ',') FROM baton_schema"), NEWEST);
    let clerk = Clerk::new();
    for store in &stores {
        store.admit(clerk.new_chat(clerk.id())).await.unwrap();
    }
    for store in stores {
        is_whole(&store).await;
        store.close().await;
    }
    assert_eq!(server.ask(&url, "SELECT count(*) FROM holders"), "0", "all have said goodbye");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_newer_schema_and_another_programs_tables_are_left_alone() {
    let server = servers::Postgres::start();
    let url = server.url();
    open(&url, &exact()).await.close().await;
    server.ask(&url, "INSERT INTO baton_schema (version) VALUES (99)");
    let error = refused(&url).await;
    assert!(matches!(error, OpenError::SchemaTooNew { found: 99, known: 1, .. }), "{error}");
    assert_eq!(error.code(), "schema_too_new");

    let url = server.new_database();
    server.ask(&url, "CREATE TABLE users (name TEXT)");
    let error = refused(&url).await;
    assert_eq!(error.code(), "not_a_baton_database", "{error}");
    let tables = "SELECT string_agg(tablename, ',') FROM pg_tables WHERE schemaname = current_schema()";
    assert_eq!(server.ask(&url, tables), "users", "nothing was made");
}

#[tokio::test(flavor = "multi_thread")]
async fn no_error_tells_the_password() {
    const PASSWORD: &str = "open-sesame";
    let server = servers::Postgres::start();
    let url = server.url();
    let (user, place) = url.split_once('@').unwrap();
    let user = &user[..user.rfind(':').unwrap()];
    for (url, code) in [
        (format!("{user}:{PASSWORD}@{place}"), "store_unusable"),
        (format!("postgres://user:{PASSWORD}@127.0.0.1:1/nothing"), "store_unusable"),
        (format!("postgres://user:{PASSWORD}@nowhere.invalid/nothing"), "store_unusable"),
        (format!("mysql://user:{PASSWORD}@host/"), "database_url_invalid"),
        (PASSWORD.to_owned(), "database_url_invalid"),
    ] {
        let error = refused(&url).await;
        assert_eq!(error.code(), code, "{error}");
        let said = format!("{error} {error:?} {}", error.action());
        assert!(!said.contains(PASSWORD), "{said}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_looks_and_changes_nothing() {
    let server = servers::Postgres::start();
    let url = server.url();
    let tables = "SELECT count(*) FROM pg_tables WHERE schemaname = current_schema()";
    let absent = check_database(&url).await.unwrap_err();
    assert_eq!((absent.code(), server.ask(&url, tables).as_str()), ("not_a_baton_database", "0"), "{absent}");

    let (store, clerk) = (open(&url, &exact()).await, Clerk::new());
    let (_, claim) = clerk.running(&store).await;
    // As if its process had died.
    let pid = server.ask(&url, "SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND granted");
    let sight =
        "SELECT (SELECT string_agg(c::text, ';') FROM claims c), (SELECT string_agg(h::text, ';') FROM holders h)";
    server.ask(&url, &format!("SELECT pg_terminate_backend({pid}, 60000)"));
    let before = server.ask(&url, sight);
    assert_eq!(check_database(&url).await.unwrap(), Vec::<String>::new());
    assert_eq!(server.ask(&url, sight), before, "nobody is taken for dead");
    server.ask(&url, &format!("DELETE FROM events WHERE run_id = '{:032x}' AND seq = 1", claim.run_id.bits()));
    let faults = check_database(&url).await.unwrap();
    assert!(faults.iter().any(|fault| fault.contains("has gaps")), "{faults:?}");

    server.ask(&url, "DELETE FROM baton_schema");
    server.ask(&url, "INSERT INTO baton_schema (version) VALUES (99)");
    assert_eq!(check_database(&url).await.unwrap_err().code(), "schema_too_new");
}
