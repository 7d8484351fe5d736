//! The door over real HTTP: the server as it is, on a real listener, with the real store in a temporary folder.
//!
//! One program, so that the parts share their house. Nothing here reaches the network.

#[cfg(test)]
mod guard;
#[cfg(test)]
mod house;
#[cfg(test)]
mod preview;
#[cfg(test)]
mod runs;
#[cfg(test)]
mod service;
#[cfg(test)]
mod session;
#[cfg(test)]
mod stream;
