//! Bytes by their hash. One adapter for every place that the `object_store` crate can reach; today that is a local folder.

mod addressed;

pub use addressed::{AddressedObjects, OpenObjectsError};
