//! A version of a project, or the output of a build: which path has which bytes. Stored as an object, so it is named by its hash.

use std::collections::BTreeMap;

use bytes::Bytes;
use contract::ProjectPath;
use serde::{Deserialize, Serialize};

use crate::RuntimeError;
use crate::ports::Objects;

/// One file of a manifest.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestEntry {
    /// SHA-256 of its bytes, in hexadecimal.
    pub sha256: String,
    /// Its size.
    pub bytes: u64,
}

/// Paths and what stands there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Manifest {
    /// The files, sorted by path, so that equal contents have equal hashes.
    pub files: BTreeMap<ProjectPath, ManifestEntry>,
}

impl Manifest {
    /// Stores files and the manifest that lists them; gives the manifest's hash.
    pub async fn store(
        objects: &dyn Objects,
        files: impl IntoIterator<Item = (ProjectPath, Bytes)>,
    ) -> Result<String, RuntimeError> {
        let mut manifest = Self::default();
        for (path, content) in files {
            let bytes = content.len() as u64;
            let sha256 = objects.put(content).await?;
            manifest.files.insert(path, ManifestEntry { sha256, bytes });
        }
        let text = serde_json::to_vec(&manifest).map_err(|e| RuntimeError::BadManifest(e.to_string()))?;
        Ok(objects.put(text.into()).await?)
    }

    /// Reads a manifest by its hash.
    pub async fn load(objects: &dyn Objects, sha256: &str) -> Result<Self, RuntimeError> {
        let bad = || RuntimeError::BadManifest(sha256.to_owned());
        let text = objects.get(sha256).await?.ok_or_else(bad)?;
        serde_json::from_slice(&text).map_err(|_not_json| bad())
    }
}
