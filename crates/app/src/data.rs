//! The data folder: where it is, the owner's token in it, and the note that a running server leaves there.
//!
//! What the adapters keep there (database, objects, workspaces) is theirs; this file only names the places.

#![expect(clippy::disallowed_methods, reason = "owns the data folder's small files")]

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use serde::{Deserialize, Serialize};

use crate::exit::Refusal;

/// Hexadecimal digits of the owner's token: 256 bits.
const TOKEN_DIGITS: usize = 64;

/// The data folder. It need not exist yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DataDir(PathBuf);

/// What a running server writes into its data folder, so that commands find it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Running {
    /// Its process.
    pub pid: u32,
    /// Its port on 127.0.0.1.
    pub port: u16,
    /// Its address, without a slash at the end.
    pub url: String,
}

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

    /// The owner's token, made of `fresh` if there is none. Readable by its owner alone from the first moment, and never half
    /// written. Only the server calls this, which has the folder to itself.
    ///
    /// # Errors
    /// If it cannot be written or read.
    pub fn token_or(&self, fresh: [u128; 2]) -> anyhow::Result<String> {
        let path = self.token_path();
        if path.exists() {
            return self.token();
        }
        let token = format!("{:032x}{:032x}", fresh[0], fresh[1]);
        let new = path.with_extension("new");
        let written = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&new);
        written
            .and_then(|mut file| file.write_all(token.as_bytes()).and_then(|()| file.sync_all()))
            .and_then(|()| fs::rename(&new, &path))
            .with_context(|| format!("cannot write {}", path.display()))?;
        Ok(token)
    }

    /// Where the owner's token is.
    pub fn token_path(&self) -> PathBuf {
        self.0.join("owner-token")
    }

    /// What the last server here wrote about itself. It may be gone.
    pub fn running(&self) -> Option<Running> {
        serde_json::from_slice(&fs::read(self.running_path()).ok()?).ok()
    }

    /// Tells commands where the server is.
    ///
    /// # Errors
    /// If the note cannot be written.
    pub fn set_running(&self, running: &Running) -> anyhow::Result<()> {
        let path = self.running_path();
        let fresh = path.with_extension("json.new");
        fs::write(&fresh, serde_json::to_vec(running)?)
            .and_then(|()| fs::rename(&fresh, &path))
            .with_context(|| format!("cannot write {}", path.display()))
    }

    /// Takes the note back, if it is this process' own.
    pub fn clear_running(&self, pid: u32) {
        if self.running().is_some_and(|running| running.pid == pid) {
            // Whoever finds a stale note sees that nobody answers there.
            let _ = fs::remove_file(self.running_path());
        }
    }

    fn running_path(&self) -> PathBuf {
        self.0.join("server.json")
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

fn is_token(text: &str) -> bool {
    text.len() == TOKEN_DIGITS && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

#[cfg(test)]
mod tests {
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
        let token = data.token_or([7, 9]).unwrap();
        assert_eq!((token.len(), data.token_or([1, 1]).unwrap(), data.token().unwrap()), (64, token.clone(), token));
        assert_eq!(mode(&data.token_path()).unwrap(), Some(0o600));
        assert_eq!(mode(data.path()).unwrap(), Some(0o700));
    }

    #[test]
    fn only_the_server_that_wrote_the_note_takes_it_back() {
        let folder = tempfile::tempdir().unwrap();
        let data = DataDir(folder.path().to_owned());
        let running = Running { pid: 7, port: 1, url: "http://127.0.0.1:1".into() };
        data.set_running(&running).unwrap();
        data.clear_running(8);
        assert_eq!(data.running(), Some(running));
        data.clear_running(7);
        assert_eq!(data.running(), None);
    }
}
