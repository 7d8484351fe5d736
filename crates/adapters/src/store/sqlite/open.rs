//! Opening: who may have the data folder, what the schema is and how the connections are set.
//!
//! Must not touch a database that is not Baton's or that a newer Baton wrote.
#![expect(clippy::disallowed_methods, reason = "owns the data folder's lock and makes the folder")]

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};
use rustix::fs::{FlockOperation, flock};
use thiserror::Error;

use super::Options;
use super::failure::store_error;

/// Schemas, oldest first; the database says in `user_version` how many of them it has. They only ever go forward.
const SCHEMAS: &[&str] = &[include_str!("schema/0001.sql"), include_str!("schema/0002.sql")];
/// `application_id` of the database: "Batn".
const APPLICATION: i32 = 0x4261_746e;
/// Bytes of a database page.
const PAGE_BYTES: u64 = 4_096;
/// How often the write-ahead log may outgrow the size at which it is emptied before its file is cut back to that.
const WAL_KEPT: u64 = 4;
/// Page cache of the writer and of each reader, in KiB.
const WRITER_CACHE_KIB: i32 = 16 * 1_024;
const READER_CACHE_KIB: i32 = 2 * 1_024;
/// Statements that a connection keeps prepared.
const PREPARED: usize = 64;

/// Why a store could not be opened.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Another process has the folder.
    #[error("the data folder {} is in use by another Baton{}", dir.display(), pid.map(|pid| format!(" (process {pid})")).unwrap_or_default())]
    DataDirInUse {
        /// The folder.
        dir: PathBuf,
        /// The process, if it told.
        pid: Option<u32>,
    },
    /// A newer Baton wrote it.
    #[error("{} has schema {found}; this Baton knows schemas up to {known}", file.display())]
    SchemaTooNew {
        /// The database.
        file: PathBuf,
        /// Its schema.
        found: i64,
        /// The newest that this program knows.
        known: i64,
    },
    /// An older Baton wrote it, and nothing may be changed now.
    #[error("{} has schema {found}, and this Baton looks at {known}", file.display())]
    SchemaTooOld {
        /// The database.
        file: PathBuf,
        /// Its schema.
        found: i64,
        /// The one that this program knows.
        known: i64,
    },
    /// The file belongs to another program.
    #[error("{} is not a database of Baton", file.display())]
    NotOurs {
        /// The file.
        file: PathBuf,
    },
    /// The folder or a file in it cannot be used.
    #[error("cannot {what} {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// There is nothing yet.
    #[error("{} holds nothing of Baton's yet", dir.display())]
    Absent {
        /// The folder.
        dir: PathBuf,
    },
    /// The copy has the name of a file.
    #[error("{} exists", file.display())]
    Exists {
        /// The file.
        file: PathBuf,
    },
    /// The copy is to be in a folder that is not there.
    #[error("there is no folder for {}", file.display())]
    NoFolder {
        /// The file.
        file: PathBuf,
    },
    /// The copy cannot be written.
    #[error("cannot copy the database to {}: {message}", file.display())]
    Copy {
        /// The file.
        file: PathBuf,
        /// Why not.
        message: String,
    },
    /// SQLite cannot use the file.
    #[error("cannot open {}: {message}", file.display())]
    Sqlite {
        /// The file.
        file: PathBuf,
        /// What SQLite says.
        message: String,
    },
}

impl OpenError {
    /// The stable code.
    pub fn code(&self) -> &'static str {
        match self {
            Self::DataDirInUse { .. } => "data_dir_in_use",
            Self::SchemaTooNew { .. } => "schema_too_new",
            Self::SchemaTooOld { .. } => "schema_too_old",
            Self::NotOurs { .. } => "not_a_baton_database",
            Self::Io { .. } => "data_dir_unusable",
            Self::Absent { .. } => "nothing_here",
            Self::Exists { .. } => "file_exists",
            Self::NoFolder { .. } => "no_such_folder",
            Self::Copy { .. } => "copy_failed",
            Self::Sqlite { .. } => "store_unusable",
        }
    }

    /// What the person can do.
    pub fn action(&self) -> &'static str {
        match self {
            Self::DataDirInUse { .. } => {
                "Use the Baton that is running, stop it first, or choose another folder with --data."
            }
            Self::SchemaTooNew { .. } => {
                "Start the newer Baton that wrote it, or restore a backup made before the update."
            }
            Self::SchemaTooOld { .. } => "Start Baton once, which brings it up to date.",
            Self::NotOurs { .. } => "Move the file away or choose another folder with --data.",
            Self::Io { .. } => "Check that the folder exists on a local disk with free space and belongs to you.",
            Self::Absent { .. } => "Start Baton there once (`baton up`), or name its data folder with --data.",
            Self::Exists { .. } => "Name another file: none is overwritten.",
            Self::NoFolder { .. } => "Make the folder first, or name a file in another.",
            Self::Copy { .. } => "Check that there is room, and that the folder belongs to you.",
            Self::Sqlite { .. } => "Check the disk; if the file is damaged, restore the data folder from a backup.",
        }
    }

    pub(super) fn io(what: &'static str, path: &Path, source: io::Error) -> Self {
        Self::Io { what, path: path.to_owned(), source }
    }

    pub(super) fn sqlite(file: &Path, error: rusqlite::Error) -> Self {
        Self::Sqlite { file: file.to_owned(), message: store_error(&error).message }
    }
}

/// Held as long as the store is open. The kernel lets go of it when the process dies, however that happens, so holding it
/// proves that no predecessor is alive.
pub(super) struct Lock {
    _file: File,
}

/// Takes the data folder, made if need be, for this process alone.
pub(super) fn lock(data: &Path) -> Result<Lock, OpenError> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(data)
        .map_err(|error| OpenError::io("make the data folder", data, error))?;
    // The folder's own entry is in its parent.
    File::open(data.join(".."))
        .and_then(|parent| parent.sync_all())
        .map_err(|error| OpenError::io("keep the data folder", data, error))?;
    let path = data.join("lock");
    let unusable = |error: io::Error| OpenError::io("lock", &path, error);
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .mode(0o600)
        .open(&path)
        .map_err(unusable)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => {}
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut text = String::new();
            // The holder's number only helps the person who reads the error.
            let _ = file.read_to_string(&mut text);
            return Err(OpenError::DataDirInUse { dir: data.to_owned(), pid: text.trim().parse().ok() });
        }
        Err(error) => return Err(unusable(error.into())),
    }
    let write = |file: &mut File| {
        file.set_len(0)?;
        file.rewind()?;
        writeln!(file, "{}", std::process::id())
    };
    write(&mut file).map_err(unusable)?;
    Ok(Lock { _file: file })
}

/// The connection that writes, with the schema up to date. `synchronous=FULL`: a commit is on the disk before it is answered.
pub(super) fn writer(file: &Path, options: &Options) -> Result<Connection, OpenError> {
    let failed = |error| OpenError::sqlite(file, error);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(file, flags).map_err(failed)?;
    let found = identify(&db, file)?;
    settings(&db, options, WRITER_CACHE_KIB).map_err(failed)?;
    durable(&db, options).map_err(failed)?;
    for (version, schema) in (1..).zip(SCHEMAS).filter(|(version, _)| *version > found) {
        let step = format!(
            "BEGIN IMMEDIATE; PRAGMA application_id = {APPLICATION}; {schema}; PRAGMA user_version = {version}; COMMIT;"
        );
        db.execute_batch(&step).map_err(failed)?;
    }
    Ok(db)
}

/// The schema of the database, which is Baton's and not of a newer one; 0 if there is nothing yet. Changes nothing.
fn identify(db: &Connection, file: &Path) -> Result<i64, OpenError> {
    let number = |sql: &str| {
        db.query_row(sql, [], |row| row.get::<_, i64>(0)).map_err(|error| match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => OpenError::NotOurs { file: file.to_owned() },
            Some(_) | None => OpenError::sqlite(file, error),
        })
    };
    let found = number("PRAGMA user_version")?;
    let application = number("PRAGMA application_id")?;
    let tables = number("SELECT count(*) FROM sqlite_schema")?;
    let known = i64::try_from(SCHEMAS.len()).unwrap_or(i64::MAX);
    if application != i64::from(APPLICATION) && (application != 0 || tables != 0) {
        return Err(OpenError::NotOurs { file: file.to_owned() });
    }
    if found > known {
        return Err(OpenError::SchemaTooNew { file: file.to_owned(), found, known });
    }
    Ok(found)
}

fn durable(db: &Connection, options: &Options) -> rusqlite::Result<()> {
    let whole = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
    db.pragma_update(None, "journal_mode", "WAL")?;
    db.pragma_update(None, "synchronous", "FULL")?;
    db.pragma_update(None, "wal_autocheckpoint", whole((options.wal_bytes / PAGE_BYTES).max(1)))?;
    // The log keeps its size, since a file that grows costs a write of metadata with each commit; but not for ever.
    db.pragma_update(None, "journal_size_limit", whole(options.wal_bytes.saturating_mul(WAL_KEPT)))?;
    match options.most_bytes {
        Some(most) => db.pragma_update(None, "max_page_count", whole(most / PAGE_BYTES)),
        None => Ok(()),
    }
}

/// A connection that cannot write.
pub(super) fn reader(file: &Path, options: &Options) -> rusqlite::Result<Connection> {
    let db = Connection::open_with_flags(file, OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX)?;
    settings(&db, options, READER_CACHE_KIB)?;
    Ok(db)
}

/// A connection that cannot write, to a database that has to be there and Baton's; with `newest`, of this program's own schema.
pub(super) fn known_reader(file: &Path, newest: bool) -> Result<Connection, OpenError> {
    // SQLite's own words for this name no file.
    File::open(file).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => OpenError::Absent { dir: file.parent().unwrap_or(file).to_owned() },
        _ => OpenError::io("read", file, error),
    })?;
    let db = reader(file, &Options::default()).map_err(|error| OpenError::sqlite(file, error))?;
    let (found, known) = (identify(&db, file)?, i64::try_from(SCHEMAS.len()).unwrap_or(i64::MAX));
    if newest && found < known {
        return Err(OpenError::SchemaTooOld { file: file.to_owned(), found, known });
    }
    Ok(db)
}

fn settings(db: &Connection, options: &Options, cache_kib: i32) -> rusqlite::Result<()> {
    db.busy_timeout(Duration::from_millis(options.busy_ms))?;
    db.set_prepared_statement_cache_capacity(PREPARED);
    // Without it a statement whose plan could depend on its parameters is prepared anew each time that it is used.
    db.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    db.pragma_update(None, "foreign_keys", true)?;
    db.pragma_update(None, "trusted_schema", false)?;
    db.pragma_update(None, "temp_store", "MEMORY")?;
    db.pragma_update(None, "cache_size", -cache_kib)
}
