//! What the check step says: less than a page, and nothing that a build would not say too.

use crate::files::{Files, project, reader, template, told};

const MISTAKES: &str = "import './gone'; import { x } from './App'; import './b'; console.log(x)";

fn checked(files: &Files) -> Vec<String> {
    told(&reader().check(files))
        .iter()
        .map(|told| told.split_whitespace().take(2).collect::<Vec<_>>().join(" "))
        .collect()
}

#[test]
fn a_check_says_what_a_build_fails_at() {
    assert_eq!(checked(&template()), Vec::<String>::new());
    let files = project(MISTAKES, &[("src/b.ts", "const = 1")]);
    assert_eq!(
        checked(&files),
        ["missing_import src/main.tsx:1:8", "syntax_error src/b.ts:1:7", "missing_export src/main.tsx:1:27"]
    );
}

#[test]
fn where_the_build_is_another_one_only_syntax_is_checked() {
    let files = project(MISTAKES, &[("src/b.ts", "const = 1")]);
    let package = |text: &str| files.clone().with("package.json", text);
    let syntax = ["syntax_error src/b.ts:1:7"];
    assert_eq!(checked(&files.clone().with("vite.config.ts", "export default {}")), syntax);
    assert_eq!(checked(&files.clone().without("vite.config.ts")), syntax);
    assert_eq!(checked(&package(r#"{"scripts":{"build":"node make.js && vite build"}}"#)), syntax);
    assert_eq!(checked(&package(r#"{"scripts":{"prebuild":"node make.js","build":"vite build"}}"#)), syntax);
    assert_eq!(checked(&package(r#"{"scripts":{"build":"tsc -b && vite build"}}"#)).len(), 3);
    let selective = package(r#"{"sideEffects":false,"scripts":{"build":"vite build"}}"#);
    assert_eq!(checked(&selective), Vec::<String>::new(), "a build may not even look at them");
}

#[test]
fn a_build_drops_what_nothing_reaches() {
    for main in [
        "if (import.meta.env.DEV) import('./gone')",
        "const page = () => import('./broken')",
        "import { T } from './t'; const t = 1 as unknown as T; console.log(t)",
        "console.log(<Nothing />)",
        "import { useNothing } from 'react'; console.log(useNothing)",
        "import a from './a.cjs'; import b from './b.vue'; import 'zod'; console.log(a, b)",
        "import { x } from './common.js'; console.log(x)",
    ] {
        let files = project(
            main,
            &[
                ("tsconfig.json", "{}"),
                ("src/broken.ts", "const = 1"),
                ("src/t.ts", "export type T = 1"),
                ("src/a.cjs", "module.exports = 1"),
                ("src/b.vue", "<template>"),
                ("src/common.js", "exports.x = 1"),
            ],
        );
        assert_eq!(checked(&files), Vec::<String>::new(), "{main}");
    }
}
