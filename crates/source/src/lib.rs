//! Reading code: what a project's files are as a page, without Node, without a sandbox and without running any of them (N7).
//!
//! [`Reader::page`] walks from `index.html` through everything that it imports and answers with the page as HTML and an import map,
//! or with every problem that keeps it from being one. [`Reader::serve`] transforms one file when a browser asks for it. Both do
//! what `vite build` with the React plugin would mean by the same files; what only a build can do is [`Code::Unsupported`] and said.
//!
//! Pure: it reads what it is given and has no clock, no files and no network. It must not run anything of a project, and must not
//! trust a byte of it: no text makes it panic, and none breaks out of the page's HTML.

mod address;
mod closure;
mod css;
mod embed;
mod html;
mod json;
mod kind;
mod memory;
mod names;
mod packages;
mod page;
mod problem;
mod reader;
mod resolve;
mod script;
mod serve;
mod settings;
mod style;
mod tree;

pub use address::{is_hash, is_named_by_hash};
pub use embed::with_script;
pub use packages::{Packages, PackagesError};
pub use page::Page;
pub use problem::{Code, Problem};
pub use reader::{Reader, ReaderLimits};
pub use serve::Served;
pub use settings::Settings;
pub use tree::{Leaf, Tree};
