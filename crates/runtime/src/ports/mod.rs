//! The ports: everything outside that the runtime needs, as traits. Adapters implement them; nothing here does I/O.

pub mod admission;
pub mod bus;
pub mod drawn;
pub mod model;
pub mod objects;
pub mod sandbox;
pub mod store;
pub mod world;

pub use bus::{Bus, Listener, Wake};
pub use model::{Model, ModelError, ModelEvent, ModelRequest};
pub use objects::Objects;
pub use sandbox::{Sandbox, Workspace};
pub use store::Store;
pub use world::World;
