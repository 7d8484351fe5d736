//! What a file is by its name, as Vite decides it.

use crate::script::Dialect;

/// What kind of file a path names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Script(Dialect),
    Json,
    Style,
    /// Served as it is; imported, it is its address.
    Asset,
    /// Only a build can read it; why.
    Foreign(&'static str),
}

/// What Vite holds to be an asset without being told (`KNOWN_ASSET_TYPES`).
const ASSETS: &[&str] = &[
    "apng",
    "bmp",
    "png",
    "jpg",
    "jpeg",
    "jfif",
    "pjpeg",
    "pjp",
    "gif",
    "svg",
    "ico",
    "webp",
    "avif",
    "cur",
    "jxl",
    "mp4",
    "webm",
    "ogg",
    "mp3",
    "wav",
    "flac",
    "aac",
    "opus",
    "mov",
    "m4a",
    "vtt",
    "woff",
    "woff2",
    "eot",
    "ttf",
    "otf",
    "webmanifest",
    "pdf",
    "txt",
];

impl Kind {
    pub(crate) fn of(path: &str) -> Self {
        let name = path.rsplit('/').next().unwrap_or(path);
        let extension = name.rsplit_once('.').map_or("", |(_, extension)| extension);
        match extension {
            "js" | "mjs" => Self::Script(Dialect::Js),
            "jsx" => Self::Script(Dialect::Jsx),
            "ts" | "mts" => Self::Script(Dialect::Ts),
            "tsx" => Self::Script(Dialect::Tsx),
            "json" => Self::Json,
            "css" if name.ends_with(".module.css") => Self::Foreign("CSS modules need a build"),
            "css" => Self::Style,
            "scss" | "sass" | "less" | "styl" | "stylus" | "pcss" | "postcss" | "sss" => {
                Self::Foreign("Sass, Less, Stylus and PostCSS need a build")
            }
            "cjs" | "cts" => Self::Foreign("CommonJS needs a build; import and export are what a browser understands"),
            _ if ASSETS.iter().any(|asset| extension.eq_ignore_ascii_case(asset)) => Self::Asset,
            _ => Self::Foreign("files of this kind need a build; `?raw` imports one as text"),
        }
    }

    pub(crate) fn is_asset(path: &str) -> bool {
        Self::of(path) == Self::Asset
    }
}
