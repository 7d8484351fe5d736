//! Objects in memory.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use runtime::ports::objects::{Objects, ObjectsError};
use sha2::{Digest, Sha256};

use super::{Hook, Moment, Op};

/// Objects that last as long as a handle to them does. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct MemoryObjects {
    hook: Hook,
    objects: Arc<Mutex<HashMap<String, Bytes>>>,
}

impl MemoryObjects {
    /// Objects of which the hook decides what fails.
    pub fn new(hook: Hook) -> Self {
        Self { hook, objects: Arc::default() }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.objects.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    fn ask(&self, moment: Moment, name: &'static str) -> Result<(), ObjectsError> {
        self.hook.ask(moment, Op { name, run: None }).map_err(ObjectsError::Unavailable)
    }
}

#[async_trait]
impl Objects for MemoryObjects {
    async fn put(&self, bytes: Bytes) -> Result<String, ObjectsError> {
        self.ask(Moment::Before, "put")?;
        tokio::task::yield_now().await;
        let name: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        self.objects.lock().unwrap_or_else(PoisonError::into_inner).insert(name.clone(), bytes);
        self.ask(Moment::After, "put")?;
        Ok(name)
    }

    async fn get(&self, sha256: &str) -> Result<Option<Bytes>, ObjectsError> {
        if sha256.len() != 64 || !sha256.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            return Err(ObjectsError::BadHash(sha256.chars().take(80).collect()));
        }
        self.ask(Moment::Before, "get")?;
        tokio::task::yield_now().await;
        let found = self.objects.lock().unwrap_or_else(PoisonError::into_inner).get(sha256).cloned();
        self.ask(Moment::After, "get")?;
        Ok(found)
    }
}
