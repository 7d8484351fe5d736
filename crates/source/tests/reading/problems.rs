//! What keeps a project from being a page, and what a build would say about it.

use source::Code;

use crate::files::{packages, page, project, reader, template, told};

/// The entry, other files, and the problem: `code place` and the beginning of its message; or that the page is good.
type Row = (&'static str, &'static [(&'static str, &'static str)], &'static str);

const ROWS: &[Row] = &[
    // Imports
    ("import './a'", &[], "missing_import src/main.tsx:1:8 `./a` is imported, but there is no file src/a with .tsx"),
    (
        "import './App.css'",
        &[],
        "missing_import src/main.tsx:1:8 `./App.css` is imported, but there is no file src/App.css",
    ),
    ("import './app'", &[], "missing_import src/main.tsx:1:8 `./app`"),
    ("import a from '/a.png'; console.log(a)", &[], "missing_import src/main.tsx:1:15 `/a.png`"),
    ("import './App'; import '/src/App'; import './App.js'", &[], "good"),
    (
        "import './a'",
        &[
            ("src/a/index.ts", "import { b } from '.'; import { b as c } from '../a/'; export const b = 1; c"),
            ("src/a.ts", ""),
        ],
        "good",
    ),
    ("import type { A } from './gone'; const a: A = 1; console.log(a)", &[], "good"),
    ("import '../../x'", &[], "unsupported src/main.tsx:1:8 `../../x` is imported: it leads outside the project"),
    ("import '../node_modules/x.js'", &[], "unsupported"),
    ("import 'zod'", &[], "unsupported src/main.tsx:1:8 the package `zod` is not among those"),
    ("import '@/App'", &[], "unsupported src/main.tsx:1:8 the package `@/App`"),
    ("import 'https://x.test/a.js'", &[], "unsupported"),
    ("import 'node:fs'", &[], "unsupported"),
    ("import './App?worker'", &[], "unsupported src/main.tsx:1:8 `./App?worker` is imported: `?worker` needs a build"),
    (
        "import './a.module.css'",
        &[("src/a.module.css", "")],
        "unsupported src/main.tsx:1:8 `./a.module.css` is imported: CSS modules",
    ),
    ("import './a.scss'", &[("src/a.scss", "")], "unsupported"),
    ("import './a.vue'", &[("src/a.vue", "")], "unsupported"),
    ("import('./gone')", &[], "missing_import src/main.tsx:1:8 `./gone`"),
    ("import(window.name)", &[], "unsupported src/main.tsx:1:8 an import() of a path"),
    ("import.meta.glob('./*.ts')", &[], "unsupported src/main.tsx:1:1 import.meta.glob"),
    ("new Worker('/w.js')", &[("src/w.ts", "")], "unsupported src/main.tsx:1:1 a worker"),
    ("const a = require('./App'); console.log(a)", &[], "unsupported src/main.tsx:1:11 require()"),
    ("import './a.js'", &[("src/a.js", "module.exports = 1")], "unsupported src/a.js:1:1 CommonJS"),
    ("function d(x: unknown) {} @d class A {}", &[], "unsupported src/main.tsx:1:27 decorators"),
    // Names
    (
        "import { Ap } from './App'; Ap",
        &[],
        "missing_export src/main.tsx:1:10 src/App.tsx has no export named `Ap`; it exports `App`",
    ),
    (
        "import App from './App'; App",
        &[],
        "missing_export src/main.tsx:1:8 src/App.tsx has no export named `default`; it exports `App`",
    ),
    (
        "import { T } from './t'; const t: T = 1; t",
        &[("src/t.ts", "export type T = 1")],
        "missing_export src/main.tsx:1:10 src/t.ts has no export named `T`; it exports nothing",
    ),
    ("import { type T } from './t'; const t: T = 1; t", &[("src/t.ts", "export type T = 1")], "good"),
    ("export { x } from './App'", &[], "missing_export src/main.tsx:1:10"),
    (
        "import { useNothing } from 'react'; useNothing",
        &[],
        "missing_export src/main.tsx:1:10 `react` has no export named `useNothing`",
    ),
    ("import { Chekc } from 'lucide-react'; Chekc", &[], "missing_export src/main.tsx:1:10 `lucide-react`"),
    (
        "import { a } from './s'; a",
        &[
            ("src/s.ts", "export * from './r'; export * from './s'"),
            ("src/r.ts", "export * from './s'; export const a = 1"),
        ],
        "good",
    ),
    (
        "import { b } from './s'; b",
        &[("src/s.ts", "export * from './r'"), ("src/r.ts", "export * from './s'; export default 1")],
        "missing_export src/main.tsx:1:10 src/s.ts",
    ),
    (
        "import d from './s'; d",
        &[("src/s.ts", "export * from './r'"), ("src/r.ts", "export default 1")],
        "missing_export",
    ),
    (
        "import { a } from './s'; a",
        &[
            ("src/s.ts", "export * from './q'; export * from './r'"),
            ("src/q.ts", "export const a = 1"),
            ("src/r.ts", "export const a = 1"),
        ],
        "missing_export src/main.tsx:1:10 `a` is exported by two",
    ),
    (
        "import { a } from './s'; a",
        &[
            ("src/s.ts", "export * from './q'; export * from './r'"),
            ("src/q.ts", "export const a = 1"),
            ("src/r.ts", "export { a } from './q'"),
        ],
        "good",
    ),
    ("import { a } from './d.json'; a", &[("src/d.json", "{\"b\":1}")], "missing_export"),
    ("import d from './index.css'; d", &[], "missing_export src/main.tsx:1:8 src/index.css"),
    (
        "import { s } from './s.svg'; s",
        &[("src/s.svg", "")],
        "missing_export src/main.tsx:1:10 src/s.svg has no export named `s`; its address",
    ),
    ("const a = <Nothing />; console.log(a)", &[], "missing_import src/main.tsx:1:12 `<Nothing>` is used"),
    ("const a = <ui.Nothing />; console.log(a)", &[], "missing_import src/main.tsx:1:12 `<ui>` is used"),
    ("declare const Thing: () => null; console.log(<Thing />, <Image />)", &[], "good"),
    ("declare global { var Thing: () => null } console.log(<Thing />)", &[], "good"),
    ("window.Thing = () => null; console.log(<Thing />)", &[], "good"),
    // Syntax
    ("const a = ;", &[], "syntax_error src/main.tsx:1:11 Unexpected token"),
    ("\n\n  const é = <p>;", &[], "syntax_error src/main.tsx:3:"),
    (
        "const a = 1;\nconst a = 2;",
        &[],
        "syntax_error src/main.tsx:1:7 Identifier `a` has already been declared (see also line 2)",
    ),
    (
        "import { App } from './App';\nfunction App() {}",
        &[],
        "syntax_error src/main.tsx:1:10 Identifier `App` has already been declared",
    ),
    ("export { a }", &[], "syntax_error src/main.tsx:1:10 Export 'a' is not defined"),
    ("function f(a: 1): void; function f(a: 2): void; function f(a: unknown) {} f(1)", &[], "good"),
    ("interface A {} const A = 1; enum B { x } namespace B { export const y = 1 } console.log(A, B)", &[], "good"),
    ("break;", &[], "syntax_error src/main.tsx:1:1 Illegal break"),
    ("import a from './d.json'; a", &[("src/d.json", "{\n  'a': 1}")], "syntax_error src/d.json:2:3 this is not JSON"),
    ("import './a.css'", &[("src/a.css", "a { color: red")], "syntax_error src/a.css:1:3 this `{` is never closed"),
    // Styles
    ("import './a.css'", &[("src/a.css", "@import './b.css';")], "missing_import src/a.css:1:1 `./b.css`"),
    ("import './a.css'", &[("src/a.css", "@import 'tw-animate-css';")], "unsupported src/a.css:1:1"),
    (
        "import './a.css'",
        &[("src/a.css", "@plugin '@tailwindcss/typography';")],
        "unsupported src/a.css:1:1 Tailwind's plugins",
    ),
    (
        "import './a.css'",
        &[("src/a.css", "@import './b.css';"), ("src/b.css", "@import './a.css';")],
        "unsupported src/b.css:1:1",
    ),
    ("import './a.css'", &[("src/a.css", "a { background: url(./gone.png) } @source '../src';")], "good"),
    // Surroundings
    ("console.log(import.meta.env.VITE_A)", &[(".env", "VITE_A=1")], "unsupported src/main.tsx:1:1 import.meta.env"),
    ("console.log(import.meta.env.MODE)", &[(".env", "VITE_A=1")], "good"),
    ("", &[("vite.config.ts", "")], "unsupported vite.config.ts:1:1"),
    ("", &[("vite.config.js", "")], "unsupported vite.config.js:1:1"),
    ("", &[("postcss.config.js", "")], "unsupported postcss.config.js:1:1"),
    (
        "",
        &[("index.html", "<script type=module src=/src/a.tsx></script>")],
        "missing_import index.html:1:1 the page loads /src/a.tsx",
    ),
    (
        "",
        &[("index.html", "<p>\n<script type=module>1</script>")],
        "unsupported index.html:2:1 an inline module script",
    ),
    ("", &[("index.html", "<script type=importmap>{}</script>")], "unsupported index.html:1:1"),
    ("", &[("index.html", "<style>@import 'tailwindcss';</style>")], "unsupported index.html"),
    ("", &[("index.html", "<p>no script</p>")], "good"),
    (
        "const a = <Cdn />; console.log(a)",
        &[("index.html", "<script src=/cdn.js></script><script type=module src=/src/main.tsx></script>")],
        "good",
    ),
];

// N7
#[test]
fn each_problem_is_told_with_its_place() {
    for (main, others, expected) in ROWS {
        let files = project(main, others);
        let got = match page(&files) {
            Ok(_) => vec!["good".to_owned()],
            Err(problems) => told(&problems),
        };
        assert!(got.len() == 1 && got[0].starts_with(expected), "{main}\n{others:?}\n  {expected}\n  {got:#?}");
    }
}

#[test]
fn what_only_a_build_can_judge_is_never_checked() {
    for (main, others, expected) in ROWS {
        let checked = reader().check(&project(main, others));
        assert!(checked.iter().all(|problem| problem.code != Code::Unsupported), "{main}");
        if *expected == "good" {
            assert_eq!(told(&checked), Vec::<String>::new(), "{main}");
        }
    }
}

#[test]
fn all_problems_of_a_project_are_told_and_not_just_the_first() {
    let main = "import './a'; import { x } from './App'; import './b'; import 'zod'; console.log(x, <Y />)";
    let problems = page(&project(main, &[("src/b.ts", "const = 1")])).unwrap_err();
    let codes: Vec<_> = problems.iter().map(|problem| problem.code.as_str()).collect();
    assert_eq!(
        codes,
        ["missing_import", "syntax_error", "unsupported", "missing_export", "missing_import"],
        "{:#?}",
        told(&problems)
    );
    let many: String = (0..500).map(|i| format!("import './gone{i}';\n")).collect();
    assert_eq!(page(&project(&many, &[])).unwrap_err().len(), 100);
}

#[test]
fn what_is_too_large_is_said() {
    let large = project("import './large'", &[("src/large.ts", &"a;".repeat(100_001))]);
    assert!(
        told(&page(&large).unwrap_err())[0]
            .starts_with("unsupported src/large.ts:1:1 the file is larger than 200000 bytes")
    );
    let mut files = template();
    for i in 0..60 {
        files = files.with(&format!("src/m{i}.ts"), format!("import './m{}'", i + 1));
    }
    let files = files.with("src/m60.ts", "").with("src/main.tsx", "import './m0'");
    assert!(told(&page(&files).unwrap_err())[0].contains("the page has more than 50 modules"));
    let nested = project(&format!("console.log({}1{})", "(".repeat(5_000), ")".repeat(5_000)), &[]);
    assert!(told(&page(&nested).unwrap_err())[0].contains("nested too deeply"));
}

#[test]
fn without_packages_only_a_page_that_needs_none_is_good() {
    let none = source::Packages::default();
    let plain = project("document.body.append('hi')", &[])
        .with("index.html", "<script type=module src=/src/main.tsx></script>");
    assert!(reader().page(&plain, &none).is_ok());
    let problems = reader().page(&template(), &none).unwrap_err();
    assert!(problems.iter().all(|problem| problem.code == Code::Unsupported), "{:?}", told(&problems));
    assert!(packages().id().len() == 12 && none.id().is_empty());
}

/// Whatever is nested in however many levels, reading it has the stack that it takes: nobody's file ends the process.
#[test]
fn nesting_ends_no_process() {
    let words = [
        "await ", "yield ", "typeof ", "void ", "delete ", "keyof ", "infer ", "new ", "!", "-", "a?b:", "a=>", "[",
        "(",
    ];
    for word in words {
        for times in [2_000, 9_000] {
            let nested = word.repeat(times);
            let texts = [
                format!("const a = {nested}1;"),
                format!("type T = {nested}a;"),
                format!("function* g() {{ {nested}1 }}"),
            ];
            for text in texts {
                let files = project(&text, &[]);
                let _ = reader().page(&files, &packages());
            }
        }
    }
}

/// Modules that export all of each other: a name in them is looked for a bounded number of times.
#[test]
fn names_are_looked_for_a_bounded_number_of_times() {
    const MODULES: usize = 60;
    let all: String = (0..MODULES).map(|n| format!("export * from './m{n}';")).collect();
    let names: Vec<String> = (0..2_000).map(|n| format!("n{n}")).collect();
    let entry = format!("import {{ {} }} from './m0'; console.log({});", names.join(", "), names.join(", "));
    let files = (0..MODULES).fold(project(&entry, &[]), |files, n| files.with(&format!("src/m{n}.ts"), &*all));
    let _ = reader().page(&files, &packages());
}
