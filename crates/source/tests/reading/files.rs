//! Projects and packages for tests.

#![expect(clippy::disallowed_methods, reason = "reads the template that is shipped")]

use std::collections::BTreeMap;
use std::path::Path;

use sha2::{Digest as _, Sha256};
use source::{Leaf, Packages, Page, Problem, Reader, ReaderLimits, Settings, Tree};

/// Files by path, as whoever keeps a project keeps them.
#[derive(Clone, Default)]
pub struct Files(BTreeMap<String, (String, Vec<u8>)>);

impl Files {
    /// With a file more, or another content.
    pub fn with(mut self, path: &str, content: impl AsRef<[u8]>) -> Self {
        let content = content.as_ref().to_vec();
        let sha256 = Sha256::digest(&content).iter().map(|byte| format!("{byte:02x}")).collect();
        self.0.insert(path.to_owned(), (sha256, content));
        self
    }

    /// Without a file.
    pub fn without(mut self, path: &str) -> Self {
        self.0.remove(path);
        self
    }

    /// The digits that stand in a file's address.
    pub fn hash(&self, path: &str) -> &str {
        &self.0[path].0[..16]
    }
}

impl Tree for Files {
    fn file(&self, path: &str) -> Option<Leaf<'_>> {
        self.0.get(path).map(|(sha256, content)| Leaf { sha256, content })
    }
}

/// The template that projects are made from.
pub fn template() -> Files {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../templates/react-vite");
    let names = [
        "index.html",
        "package.json",
        "tsconfig.json",
        "vite.config.ts",
        "src/main.tsx",
        "src/App.tsx",
        "src/index.css",
    ];
    names.iter().fold(Files::default(), |files, name| files.with(name, std::fs::read(folder.join(name)).unwrap()))
}

/// The template with its entry in other words, and other files.
pub fn project(main: &str, others: &[(&str, &str)]) -> Files {
    others.iter().fold(template().with("src/main.tsx", main), |files, (path, content)| files.with(path, content))
}

/// Packages as a prepared template has them, but small.
pub fn packages() -> Packages {
    let json = serde_json::json!({
        "format": 1,
        "packages": {
            "react": {"module": "react.js"},
            "react-dom/client": {"module": "react-dom-client.js"},
            "react/jsx-runtime": {"module": "react-jsx-runtime.js"},
            "lucide-react": {"module": "lucide-react.js", "exports": {
                "Check": {"module": "lucide/check.js", "name": "default"},
                "Plus": {"module": "lucide/plus.js", "name": "default"},
                "createLucideIcon": {"module": "lucide/create.js", "name": "createLucideIcon"},
            }},
        },
        "modules": {
            "react.js": "export { StrictMode, lazy, useState, default } from \"./chunk.js\";",
            "react-dom-client.js": "import \"./chunk.js\"; export const createRoot = 1;",
            "react-jsx-runtime.js": "export * from \"./chunk-jsx.js\";",
            "chunk.js": "export const StrictMode = 1, lazy = 2, useState = 3; export default 4;",
            "chunk-jsx.js": "export const jsx = 1, jsxs = 2, Fragment = 3;",
            "lucide-react.js": "export { default as Check } from \"./lucide/check.js\";",
            "lucide/check.js": "import \"./create.js\"; export default 1;",
            "lucide/plus.js": "import \"./create.js\"; export default 2;",
            "lucide/create.js": "export const createLucideIcon = 1;",
        },
        "imports": {
            "react.js": ["chunk.js"],
            "react-dom-client.js": ["chunk.js"],
            "react-jsx-runtime.js": ["chunk-jsx.js"],
            "lucide/check.js": ["lucide/create.js"],
            "lucide/plus.js": ["lucide/create.js"],
        },
        "tailwind": {"version": "4.3.3", "script": "/* tailwind */"},
    });
    Packages::read(json.to_string().as_bytes()).unwrap()
}

/// A reader for projects of the template.
pub fn reader() -> Reader {
    Reader::new(ReaderLimits { cache_bytes: 1 << 20, module_bytes: 200_000, modules: 50 }, Settings::of(&template()))
}

/// The page of a project.
pub fn page(files: &Files) -> Result<Page, Vec<Problem>> {
    reader().page(files, &packages())
}

/// Problems as `code place message`.
pub fn told(problems: &[Problem]) -> Vec<String> {
    problems.iter().map(|problem| format!("{} {problem}", problem.code)).collect()
}

/// The import map of a page.
pub fn imports(page: &Page) -> BTreeMap<String, String> {
    let map = page.html.split("<script type=\"importmap\">").nth(1).unwrap().split("</script>").next().unwrap();
    serde_json::from_value(serde_json::from_str::<serde_json::Value>(map).unwrap()["imports"].clone()).unwrap()
}
