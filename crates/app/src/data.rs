//! The data folder: where it is, the owner's token in it, and the notes that running servers leave there.
//!
//! What the adapters keep there (database, objects, workspaces) is theirs; this file only names the places.

#![expect(clippy::disallowed_methods, reason = "owns the data folder's small files")]

mod note;

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use crate::exit::Refusal;
use crate::node;
use anyhow::Context as _;

pub use note::{Note, Running};

/// Hexadecimal digits of the owner's token: 256 bits.
const TOKEN_DIGITS: usize = 64;

/// The note of a server that has the folder to itself.
const NOTE: &str = "server.json";
/// Where several servers have theirs.
const NOTES: &str = "servers";

/// The data folder. It need not exist yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataDir(PathBuf);

impl DataDir {
    /// The folder that was asked for, or `$XDG_DATA_HOME/baton`, or `~/.local/share/baton`.
    ///
    /// # Errors
    /// If none of the three is known.
    pub fn find(asked: Option<&Path>, environment: &dyn Fn(&str) -> Option<String>) -> anyhow::Result<Self> {
        if let Some(path) = asked {
            return Ok(Self(std::path::absolute(path).with_context(|| format!("--data {}", path.display()))?));
        }
        // The XDG base directory specification tells to ignore a relative path.
        let absolute = |name: &str| environment(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let base = absolute("XDG_DATA_HOME").or_else(|| absolute("HOME").map(|home| home.join(".local/share")));
        let base = base.ok_or_else(|| {
            Refusal::usage("there is no data folder: neither XDG_DATA_HOME nor HOME is set", "name one with --data DIR")
        })?;
        Ok(Self(base.join("baton")))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Where its settings are kept, if any.
    pub fn settings(&self) -> PathBuf {
        self.0.join("baton.toml")
    }

    /// Where a server that was started by another command writes what it has to say.
    pub fn log(&self) -> PathBuf {
        self.0.join("server.log")
    }

    /// Where prepared templates are.
    pub fn templates(&self) -> PathBuf {
        self.0.join("templates")
    }

    /// Makes the folder, for its owner alone, if it is not there.
    ///
    /// # Errors
    /// If it cannot be made, or is no folder.
    pub fn make(&self) -> anyhow::Result<()> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&self.0);
        made.map_err(|error| {
            Refusal::failed(
                format!("cannot make the data folder {}: {error}", self.0.display()),
                "name another with --data DIR",
            )
        })
    }

    /// The owner's token.
    ///
    /// # Errors
    /// If there is none yet, or it cannot be read.
    pub fn token(&self) -> anyhow::Result<String> {
        let path = self.token_path();
        match fs::read_to_string(&path) {
            Ok(text) if is_token(text.trim()) => Ok(text.trim().to_owned()),
            Ok(_) => Err(Refusal::failed(
                format!("{} does not hold a token", path.display()),
                "stop Baton, delete the file and start Baton again: it makes a new one",
            )),
            Err(error) if error.kind() == ErrorKind::NotFound => Err(Refusal::failed(
                format!("there is no owner's token in {}", self.0.display()),
                "start Baton there first (`baton up`), or name its data folder with --data DIR",
            )),
            Err(error) => Err(Refusal::failed(
                format!("cannot read {}: {error}", path.display()),
                "run this command as the user that runs Baton",
            )),
        }
    }

    /// The owner's token, made of `random` if there is none. Readable by its owner alone from the first moment, and never half
    /// written. Of several servers that start at once, the first makes it and all have it.
    ///
    /// # Errors
    /// If it cannot be written or read.
    pub fn token_or(&self, random: &dyn Fn() -> u128) -> anyhow::Result<String> {
        let path = self.token_path();
        if path.exists() {
            return self.token();
        }
        let (name, text) = (random(), format!("{:032x}{:032x}", random(), random()));
        write_once(&path, &text, name).with_context(|| format!("cannot write {}", path.display()))?;
        self.token()
    }

    /// Where the owner's token is.
    pub fn token_path(&self) -> PathBuf {
        self.0.join("owner-token")
    }

    /// What a server here wrote about itself: one that lives, if there is one; else one that is gone and may come back.
    pub fn running(&self) -> Option<Running> {
        let here = node::host_name();
        let mut notes: Vec<_> = self.notes().iter().filter_map(|path| note::read(path)).collect();
        notes.retain(|(running, _)| running.host.is_empty() || running.host == here);
        let living = notes.iter().position(|(_, lives)| *lives).unwrap_or(0);
        (living < notes.len()).then(|| notes.swap_remove(living).0)
    }

    /// Tells commands where the server is, for as long as what is returned is held. One that has the folder to itself (`alone`) has a
    /// note of a fixed name; of several, each has its own.
    ///
    /// # Errors
    /// If the note cannot be written.
    pub fn announce(&self, running: &Running, alone: bool) -> anyhow::Result<Note> {
        let path = match alone {
            true => self.0.join(NOTE),
            // Ports are a machine's, and the folder may be several machines'.
            false => self.0.join(NOTES).join(format!("{}-{}.json", running.host, running.port)),
        };
        Note::write(path.clone(), running).with_context(|| format!("cannot write {}", path.display()))
    }

    /// Notes that there are, the one with the fixed name first.
    fn notes(&self) -> Vec<PathBuf> {
        let entries = fs::read_dir(self.0.join(NOTES)).into_iter().flatten().flatten();
        let mut several: Vec<_> =
            entries.map(|entry| entry.path()).filter(|path| path.extension() == Some("json".as_ref())).collect();
        several.sort();
        [vec![self.0.join(NOTE)], several].concat()
    }
}

/// Permission bits of a file, or none if it is not there.
///
/// # Errors
/// If the file cannot be looked at.
pub fn mode(path: &Path) -> io::Result<Option<u32>> {
    match fs::metadata(path) {
        Ok(metadata) => Ok(Some(metadata.permissions().mode() & 0o777)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes a file, for its owner alone, if there is none of that name: of several who do so at once, one does.
fn write_once(path: &Path, text: &str, random: u128) -> io::Result<()> {
    let fresh = path.with_extension(format!("{:08x}", random >> 96));
    let written = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh);
    let written = written.and_then(|mut file| file.write_all(text.as_bytes()).and_then(|()| file.sync_all()));
    // A link is made whole or not at all, and never in the place of another.
    let made = written.and_then(|()| match fs::hard_link(&fresh, path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        made => made,
    });
    let _ = fs::remove_file(&fresh);
    made
}

/// Whether a file that processes share says what this one would have written there. The first writes it.
///
/// # Errors
/// If it cannot be written or read.
pub fn agrees(path: &Path, text: &str, random: &dyn Fn() -> u128) -> io::Result<bool> {
    if !path.exists() {
        write_once(path, text, random())?;
    }
    Ok(fs::read_to_string(path)?.trim() == text)
}

/// Whether a text has the form of an owner's token.
pub fn is_token(text: &str) -> bool {
    text.len() == TOKEN_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    #[test]
    fn the_folder_is_the_one_asked_for_or_that_of_the_xdg_specification() {
        let find = |asked: Option<&str>, xdg: Option<&str>, home: Option<&str>| {
            let environment = |name: &str| match name {
                "XDG_DATA_HOME" => xdg.map(str::to_owned),
                "HOME" => home.map(str::to_owned),
                _ => None,
            };
            DataDir::find(asked.map(Path::new), &environment).map(|data| data.path().to_owned()).ok()
        };
        assert_eq!(find(Some("/a"), Some("/x"), Some("/h")), Some("/a".into()));
        assert_eq!(find(None, Some("/x"), Some("/h")), Some("/x/baton".into()));
        assert_eq!(find(None, Some("relative"), Some("/h")), Some("/h/.local/share/baton".into()));
        assert_eq!(find(None, None, None), None);
    }

    #[test]
    fn a_token_is_made_once_and_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir(folder.path().join("a/b"));
        assert!(data.token().is_err(), "none yet");
        data.make().unwrap();
        let thrown = AtomicU64::new(0);
        let random = || u128::from(thrown.fetch_add(1, Ordering::Relaxed)) << 96;
        // Servers that start at once agree on one.
        let tokens: BTreeSet<_> = std::thread::scope(|scope| {
            let servers: Vec<_> = (0..8).map(|_| scope.spawn(|| data.token_or(&random).unwrap())).collect();
            servers.into_iter().map(|server| server.join().unwrap()).collect()
        });
        assert_eq!(tokens, [data.token().unwrap()].into());
        assert_eq!(data.token_or(&random).unwrap().len(), 64);
        assert_eq!(mode(&data.token_path()).unwrap(), Some(0o600));
        assert_eq!(mode(data.path()).unwrap(), Some(0o700));
        assert_eq!(fs::read_dir(data.path()).unwrap().count(), 1, "nothing half made is left");
    }

    #[test]
    fn commands_find_a_server_that_lives_and_its_note_goes_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir(folder.path().to_owned());
        let running = |port: u16| Running {
            host: node::host_name(),
            pid: u32::from(port),
            port,
            url: format!("http://127.0.0.1:{port}"),
        };
        let port = || data.running().map(|running| running.port);
        assert_eq!(port(), None);
        let one = data.announce(&running(1), false).unwrap();
        let two = data.announce(&running(2), false).unwrap();
        let elsewhere = Running { host: "another machine".into(), ..running(0) };
        let _elsewhere = data.announce(&elsewhere, false).unwrap();
        assert_eq!(port(), Some(1));
        // As a crash leaves it: there, and held by nobody.
        let left = folder.path().join(NOTES).join("left");
        fs::hard_link(&one.path, &left).unwrap();
        let path = one.path.clone();
        drop(one);
        fs::rename(&left, &path).unwrap();
        assert_eq!(port(), Some(2), "one that lives");
        drop(two);
        assert_eq!(port(), Some(1), "one that may come back");
        let former = data.announce(&running(3), true).unwrap();
        let alone = data.announce(&running(4), true).unwrap();
        drop(former);
        assert_eq!(port(), Some(4), "only the server that wrote a note takes it back");
        drop(alone);
        assert_eq!(port(), Some(1));
    }
}
