//! Opening: what the address is, how connections are set, and bringing the schema up to date.
//!
//! Must not touch tables that are not Baton's or that a newer Baton made, and must not tell the address's password to anybody.

use std::str::FromStr;

use runtime::ports::store::StoreError;
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, PgConnection};
use thiserror::Error;

use super::PostgresOptions;
use super::column::get;
use super::links::{Links, Trouble};

/// Schemas, oldest first; the table `baton_schema` says how many of them the database has. They only ever go forward.
const SCHEMAS: &[&str] = &[include_str!("schema/0001.sql")];
/// The advisory lock that whoever changes the schema holds: "Batonsch".
const CHANGING: i64 = 0x4261_746f_6e73_6368;
/// The oldest server whose SQL is enough, as it tells its version.
const OLDEST: i64 = 130_000;
/// What the server says when a table exists already.
const EXISTS: &str = "42P07";

/// Why a store could not be opened. Names the server and the database, never a password.
#[derive(Debug, Error)]
pub enum OpenError {
    /// The address is not one of a PostgreSQL database.
    #[error("the address of the database cannot be read: postgres://USER:PASSWORD@HOST:PORT/DATABASE is expected")]
    BadAddress,
    /// The server cannot be reached, or refuses.
    #[error("cannot open {place}: {error}")]
    Unusable {
        /// Host, port and database.
        place: String,
        /// What happened.
        error: StoreError,
    },
    /// The server is too old, or its database is not in UTF-8.
    #[error("{place} cannot hold what Baton writes: {why}")]
    Unfit {
        /// Host, port and database.
        place: String,
        /// Why not.
        why: String,
    },
    /// A newer Baton made the tables.
    #[error("{place} has schema {found}; this Baton knows schemas up to {known}")]
    SchemaTooNew {
        /// Host, port and database.
        place: String,
        /// Its schema.
        found: i64,
        /// The newest that this program knows.
        known: i64,
    },
    /// An older Baton made the tables, and nothing may be changed now.
    #[error("{place} has schema {found}, and this Baton looks at {known}")]
    SchemaTooOld {
        /// Host, port and database.
        place: String,
        /// Its schema.
        found: i64,
        /// The one that this program knows.
        known: i64,
    },
    /// There is nothing of Baton's, and nothing may be made now.
    #[error("{place} holds nothing of Baton's yet")]
    Absent {
        /// Host, port and database.
        place: String,
    },
    /// The tables belong to another program.
    #[error("{place} has tables of another program")]
    NotOurs {
        /// Host, port and database.
        place: String,
    },
}

impl OpenError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::BadAddress => "database_url_invalid",
            Self::Unusable { .. } => "store_unusable",
            Self::Unfit { .. } => "store_unfit",
            Self::SchemaTooNew { .. } => "schema_too_new",
            Self::SchemaTooOld { .. } => "schema_too_old",
            Self::Absent { .. } | Self::NotOurs { .. } => "not_a_baton_database",
        }
    }

    /// What the person can do.
    pub fn action(&self) -> &'static str {
        match self {
            Self::BadAddress => "Write the address as postgres://USER:PASSWORD@HOST:PORT/DATABASE.",
            Self::Unusable { .. } => {
                "Check that the server runs, and that the address, the user and the password are right."
            }
            Self::Unfit { .. } => "Use PostgreSQL 13 or newer and a database that was made with ENCODING 'UTF8'.",
            Self::SchemaTooNew { .. } => {
                "Start the newer Baton that wrote it, or restore a backup made before the update."
            }
            Self::SchemaTooOld { .. } => "Start Baton once, which brings it up to date.",
            Self::Absent { .. } => "Check the address. The first start of Baton makes its tables there.",
            Self::NotOurs { .. } => "Make a database for Baton alone and name it in the address.",
        }
    }
}

/// Whether an address can be read, with the settings behind its `?`. Nobody is asked.
pub fn is_address(url: &str) -> bool {
    address(url, &PostgresOptions::default()).is_ok()
}

/// How every connection is made.
pub(super) fn address(url: &str, options: &PostgresOptions) -> Result<PgConnectOptions, OpenError> {
    if !url.starts_with("postgres://") && !url.starts_with("postgresql://") {
        return Err(OpenError::BadAddress);
    }
    let address = PgConnectOptions::from_str(url).map_err(|_| OpenError::BadAddress)?;
    let wait = options.wait_ms.to_string();
    let settings = [
        // An answer to a write means that the commit is on the disk, whatever is usual on this server.
        ("synchronous_commit", "on"),
        ("default_transaction_isolation", "read committed"),
        // No table is searched: rows are found by their indexes, one after the other. A plan is made once and stays, and the one
        // that is best while a table is small is not that for long.
        ("enable_seqscan", "off"),
        ("enable_hashjoin", "off"),
        ("enable_mergejoin", "off"),
        ("plan_cache_mode", "force_generic_plan"),
        ("jit", "off"),
        // Nobody waits for an answer that comes later.
        ("statement_timeout", &wait),
        ("lock_timeout", &wait),
        ("idle_in_transaction_session_timeout", &wait),
        ("client_min_messages", "warning"),
    ];
    Ok(address.application_name("baton").options(settings).disable_statement_logging())
}

/// Host, port and database.
pub(super) fn place(address: &PgConnectOptions) -> String {
    let host = address.get_socket().map_or_else(|| address.get_host().to_owned(), |path| path.display().to_string());
    let database = address.get_database().unwrap_or_else(|| address.get_username());
    format!("the database {database} on {host}:{}", address.get_port())
}

/// Looks whether the database is Baton's and brings its schema up to date. Of many who open it at once, one does that.
pub(super) async fn prepare(links: &Links, place: &str) -> Result<(), OpenError> {
    let unusable = |error| OpenError::Unusable { place: place.to_owned(), error };
    let mut connection = links.connect().await.map_err(unusable)?;
    let known = i64::try_from(SCHEMAS.len()).unwrap_or(i64::MAX);
    fit(links, &mut connection, place).await?;
    if version(links, &mut connection, place, known).await? == known {
        return Ok(());
    }
    // Held by the connection, which ends with this function.
    let locked = links.ask(&mut connection, sqlx::query("SELECT pg_advisory_lock($1)").bind(CHANGING)).await;
    locked.map_err(|trouble| unusable(trouble.error))?;
    let found = version(links, &mut connection, place, known).await?;
    for (number, schema) in (1..).zip(SCHEMAS).filter(|(number, _)| *number > found) {
        change(links, &mut connection, number, schema).await.map_err(|error| {
            // Nothing was made: the tables were there.
            let exists = error.message.contains(EXISTS);
            if exists { OpenError::NotOurs { place: place.to_owned() } } else { unusable(error) }
        })?;
        tracing::info!(schema = number, "the database's schema is up to date");
    }
    Ok(())
}

/// Looks whether the database is Baton's, with the schema of this program. Changes nothing.
pub(super) async fn recognise(links: &Links, connection: &mut PgConnection, place: &str) -> Result<(), OpenError> {
    let known = i64::try_from(SCHEMAS.len()).unwrap_or(i64::MAX);
    fit(links, connection, place).await?;
    match version(links, connection, place, known).await? {
        0 => Err(OpenError::Absent { place: place.to_owned() }),
        found if found < known => Err(OpenError::SchemaTooOld { place: place.to_owned(), found, known }),
        _ => Ok(()),
    }
}

/// One schema's step, in one transaction. On an error the connection is not used again, which takes back what was done.
async fn change(
    links: &Links,
    connection: &mut PgConnection,
    number: i64,
    schema: &'static str,
) -> Result<(), StoreError> {
    let told = |trouble: Trouble| trouble.error;
    links.run(connection, "BEGIN").await.map_err(told)?;
    if number == 1 {
        let table = "CREATE TABLE baton_schema (version BIGINT NOT NULL PRIMARY KEY, applied_at TIMESTAMPTZ NOT NULL DEFAULT now())";
        links.run(connection, table).await.map_err(told)?;
    }
    links.run(connection, schema).await.map_err(told)?;
    let done = sqlx::query("INSERT INTO baton_schema (version) VALUES ($1)").bind(number);
    links.ask(connection, done).await.map_err(told)?;
    links.run(connection, "COMMIT").await.map_err(told)
}

async fn fit(links: &Links, connection: &mut PgConnection, place: &str) -> Result<(), OpenError> {
    let unusable = |error| OpenError::Unusable { place: place.to_owned(), error };
    let ask = sqlx::query("SELECT current_setting('server_version_num')::bigint, current_setting('server_encoding')");
    let rows = links.ask(connection, ask).await.map_err(|trouble| unusable(trouble.error))?;
    let unfit = |why| Err(OpenError::Unfit { place: place.to_owned(), why });
    for row in &rows {
        let (version, encoding) = (get::<i64>(row, 0).map_err(unusable)?, get::<String>(row, 1).map_err(unusable)?);
        if version < OLDEST {
            return unfit(format!("the server's version is {version}, older than {OLDEST}"));
        }
        if encoding != "UTF8" {
            return unfit(format!("its encoding is {encoding}"));
        }
    }
    Ok(())
}

/// The schema of the database, which is not of a newer Baton; 0 if there is nothing yet. Changes nothing.
async fn version(links: &Links, connection: &mut PgConnection, place: &str, known: i64) -> Result<i64, OpenError> {
    let unusable = |error| OpenError::Unusable { place: place.to_owned(), error };
    let mut number = async |sql: &'static str| {
        let rows = links.ask(connection, sqlx::query(sql)).await.map_err(|trouble| unusable(trouble.error))?;
        rows.first().map_or(Ok(0), |row| get::<i64>(row, 0)).map_err(unusable)
    };
    if number("SELECT (to_regclass('baton_schema') IS NOT NULL)::int::bigint").await? == 0 {
        return Ok(0);
    }
    let found = number("SELECT coalesce(max(version), 0) FROM baton_schema").await?;
    match found > known {
        true => Err(OpenError::SchemaTooNew { place: place.to_owned(), found, known }),
        false => Ok(found),
    }
}
