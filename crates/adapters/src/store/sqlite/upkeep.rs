//! Looking after the database: is it whole, and a copy of it while it is in use.
#![expect(clippy::disallowed_methods, reason = "SQLite blocks; owns the backup's files")]

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use runtime::ports::store::{StoreError, StoreFault};
use rusqlite::{Connection, Result};

use super::super::alike::with_ids;
use super::failure::store_error;
use super::{OpenError, Options, Sqlite, open};

/// Faults of one kind that are reported; there may be more.
const REPORTED: usize = 100;

/// What must hold between tables and what no constraint can say. Each query gives one line per fault.
const INVARIANTS: &[&str] = &[
    "SELECT 'the log of run ' || hex(run_id) || ' has gaps: ' || count(*) || ' events up to ' || max(seq)
     FROM events GROUP BY run_id HAVING count(*) <> max(seq)",
    "SELECT 'the log of run ' || hex(r.id) || ' does not end where its row says' FROM runs r LEFT JOIN claims c ON c.run_id = r.id
     WHERE coalesce(c.last_seq, r.last_seq) <> coalesce((SELECT max(seq) FROM events e WHERE e.run_id = r.id), 0)",
    "SELECT 'run ' || hex(r.id) || ' is ' || r.status || ' and ' || iif(c.run_id IS NULL, 'cannot', 'can') || ' be claimed'
     FROM runs r LEFT JOIN claims c ON c.run_id = r.id WHERE (r.ended_at IS NULL) <> (c.run_id IS NOT NULL)",
    "SELECT 'the claim of run ' || hex(c.run_id) || ' is not that of its row' FROM claims c JOIN runs r ON r.id = c.run_id
     WHERE c.n <> r.n OR c.project_id <> r.project_id OR (c.root_id = c.run_id) <> (r.parent IS NULL)",
    "SELECT 'the snapshot of run ' || hex(s.run_id) || ' is beyond the end of its log' FROM snapshots s
     WHERE s.seq > (SELECT max(seq) FROM events e WHERE e.run_id = s.run_id)",
    "SELECT 'the answer of run ' || hex(run_id) || ' is in pieces' FROM prose WHERE run_id NOT IN (SELECT run_id FROM claims)
     GROUP BY run_id",
    "SELECT 'the counter of active runs of ' || scope || ' ' || hex(id) || ' is wrong' FROM (
         SELECT scope, id, active FROM counters
         UNION ALL SELECT 'chat', chat_id, -count(*) FROM claims JOIN runs ON id = run_id WHERE parent IS NULL GROUP BY chat_id
         UNION ALL SELECT 'user', user_id, -count(*) FROM claims JOIN runs ON id = run_id WHERE parent IS NULL GROUP BY user_id
         UNION ALL SELECT 'global', zeroblob(16), -count(*) FROM claims WHERE root_id = run_id
     ) GROUP BY scope, id HAVING sum(active) <> 0",
];

impl Sqlite {
    /// Reads the whole database and gives what is wrong with it, one line per fault; nothing if all is well.
    ///
    /// # Errors
    /// The database cannot be read.
    pub async fn check(&self) -> Result<Vec<String>, StoreError> {
        self.readers.read(faults).await
    }

    /// Writes a copy of the database as it is now to a file that does not exist yet; the store goes on working. The copy is
    /// durable and whole when this returns, and no file of that name is left otherwise.
    ///
    /// # Errors
    /// The file exists, or the disk fails.
    pub async fn backup(&self, to: &Path) -> Result<(), StoreError> {
        let (file, to) = (self.file.clone(), to.to_owned());
        let copied = tokio::task::spawn_blocking(move || copy(&file, &to)).await;
        copied.map_err(|error| StoreError::new(StoreFault::Stopped, format!("the copy did not end: {error}")))?
    }
}

/// Reads the whole database of a data folder, also while a Baton works on it, and gives what is wrong with it, one line per fault.
/// Nothing is changed and nobody waits.
///
/// # Errors
/// There is no database of Baton, it has another schema than this program, or it cannot be read.
pub fn check_folder(data: &Path) -> std::result::Result<Vec<String>, OpenError> {
    let file = data.join("baton.db");
    let db = open::known_reader(&file, true)?;
    faults(&db).map_err(|error| OpenError::sqlite(&file, error))
}

/// Writes a copy of the database of a data folder as it is now, also while a Baton works on it; see [`Sqlite::backup`].
///
/// # Errors
/// There is no database of Baton, the file exists, or the disk fails.
pub fn backup_folder(data: &Path, to: &Path) -> std::result::Result<(), OpenError> {
    let file = data.join("baton.db");
    open::known_reader(&file, false)?;
    // Said before SQLite says it in words that name no cause. What comes in between is found when the copy is made.
    if to.exists() {
        return Err(OpenError::Exists { file: to.to_owned() });
    }
    if to.parent().is_some_and(|folder| !folder.as_os_str().is_empty() && !folder.is_dir()) {
        return Err(OpenError::NoFolder { file: to.to_owned() });
    }
    copy(&file, to).map_err(|error| OpenError::Copy { file: to.to_owned(), message: error.message })
}

fn faults(db: &Connection) -> Result<Vec<String>> {
    let lines = |sql: &str| -> Result<Vec<String>> {
        db.prepare(sql)?.query_map([], |row| row.get(0))?.take(REPORTED).collect()
    };
    let mut found = lines("PRAGMA integrity_check")?;
    found.retain(|line| line != "ok");
    found.extend(lines(
        "SELECT 'a row of ' || \"table\" || ' refers to nothing in ' || parent FROM pragma_foreign_key_check",
    )?);
    for invariant in INVARIANTS {
        found.extend(lines(invariant)?.iter().map(|line| with_ids(line)));
    }
    Ok(found)
}

fn copy(file: &Path, to: &Path) -> Result<(), StoreError> {
    let failed = |what: &str, error: std::io::Error| {
        StoreError::new(StoreFault::Unavailable, format!("cannot {what} the copy: {error}"))
    };
    let mut partial = to.as_os_str().to_owned();
    partial.push(".partial");
    // Takes the name, so that no file is overwritten, whoever makes it in the meantime.
    File::create_new(to).map_err(|error| failed("make", error))?;
    let whole = || {
        // What is in it concerns its owner alone, wherever it is put. SQLite fills an empty file.
        let made = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&partial);
        made.map_err(|error| failed("make", error))?;
        let db = open::reader(file, &Options::default()).map_err(|error| store_error(&error))?;
        let path =
            partial.to_str().ok_or_else(|| StoreError::new(StoreFault::Refused, "the copy's path is not UTF-8"))?;
        db.execute("VACUUM INTO ?1", [path]).map_err(|error| store_error(&error))?;
        File::open(&partial).and_then(|copy| copy.sync_all()).map_err(|error| failed("write", error))?;
        fs::rename(&partial, to).map_err(|error| failed("name", error))?;
        let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        File::open(folder).and_then(|folder| folder.sync_all()).map_err(|error| failed("keep", error))
    };
    whole().inspect_err(|_| {
        // What is left of a failed copy is of no use; the error says what failed.
        let _ = fs::remove_file(&partial);
        let _ = fs::remove_file(to);
    })
}
