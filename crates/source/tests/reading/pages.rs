//! What a page is made of.

use crate::files::{Files, imports, packages, page, project, reader, template, told};

/// An address of a file of the project.
fn module(files: &Files, path: &str, form: &str) -> String {
    format!("/{}?{form}={}", path.strip_prefix("public/").unwrap_or(path), files.hash(path))
}

// N7
#[test]
fn the_template_is_a_good_page() {
    let (files, packages) = (template(), packages());
    let page = page(&files).unwrap();
    let pack = format!("/@baton/{}", packages.id());
    let expected = [
        ("/src/App", module(&files, "src/App.tsx", "module")),
        ("/src/index.css", module(&files, "src/index.css", "module")),
        ("/src/main.tsx", module(&files, "src/main.tsx", "module")),
        ("react", format!("{pack}/react.js")),
        ("react-dom/client", format!("{pack}/react-dom-client.js")),
        ("react/jsx-runtime", format!("{pack}/react-jsx-runtime.js")),
    ];
    assert_eq!(imports(&page), expected.map(|(key, address)| (key.to_owned(), address)).into());
    let paths: Vec<_> = page.files.keys().map(String::as_str).collect();
    assert_eq!(paths, ["index.html", "src/App.tsx", "src/index.css", "src/main.tsx"]);

    let html = &page.html;
    let at = |text: &str| html.find(text).unwrap_or_else(|| panic!("{text} is not in {html}"));
    let order = [
        "<head>".to_owned(),
        format!("<script src=\"/@baton/page.js\" data-revision=\"{}\"></script>", page.revision),
        "<script type=\"importmap\">".to_owned(),
        "<style type=\"text/tailwindcss\">;@import \"tailwindcss\";".to_owned(),
        format!("<script src=\"{pack}/tailwind.js\"></script>"),
        format!("<link rel=\"modulepreload\" href=\"{}\">", module(&files, "src/App.tsx", "module")),
        format!("<link rel=\"modulepreload\" href=\"{pack}/chunk.js\">"),
        "<meta charset".to_owned(),
        format!("<script type=\"module\" src=\"{}\"></script>", module(&files, "src/main.tsx", "module")),
    ];
    assert!(order.windows(2).all(|pair| at(&pair[0]) < at(&pair[1])), "{html}");
    assert!(page.script_hashes.len() == 1 && page.script_hashes[0].starts_with("'sha256-"));
    assert_eq!(page.revision.len(), 16);
}

const LARGER: &str = r#"
    import { createRoot } from "react-dom/client";
    import * as store from "./lib";
    import { Check, Plus as Add } from "lucide-react";
    import type { Shape } from "./not-there";
    import data, { title } from "./data.json";
    import notes from "./notes.md?raw";
    import logo from "./logo.svg";
    import hero from "/hero.png";
    import font from "./font.woff2?url";
    import "./late.css";
    import "./styles/index.css";
    const page = () => import("./pages/About");
    const sound = new URL("./ding.mp3", import.meta.url).href;
    createRoot(document.body).render(<a title={title}><Check /><Add />{String([store, data, notes, logo, hero, font, page, sound])}</a>);
    export type { Shape };
"#;

const OTHERS: &[(&str, &str)] = &[
    ("src/lib/index.ts", "export * from './math.js'; export { default as logo } from '../logo.svg';"),
    ("src/lib/math.ts", "export enum Color { Red } export const add = (a: number) => a;"),
    ("src/data.json", r#"{"title":"x","not a name":1}"#),
    ("src/notes.md", "# hi"),
    ("src/logo.svg", "<svg/>"),
    ("public/hero.png", "png"),
    ("src/font.woff2", "font"),
    ("src/ding.mp3", "ding"),
    ("src/late.css", "@import 'https://fonts.test/a.css'; b { color: red }"),
    ("src/styles/index.css", "@import \"tailwindcss\"; @import './base' layer(base); @import 'tailwindcss';"),
    ("src/styles/base.css", ".a { background: url('../logo.svg#x') } .b { background: url(/hero.png) }"),
    ("src/pages/About.tsx", "import './about.css'; export default () => <img src=\"/icon.png\" />;"),
    ("src/pages/about.css", "i { color: blue }"),
    ("public/icon.png", "icon"),
];

// N7
#[test]
fn a_larger_app_means_what_its_build_means() {
    let files = project(LARGER, OTHERS);
    let page = page(&files).unwrap();
    let pack = format!("/@baton/{}", packages().id());
    let expected = [
        ("/hero.png", module(&files, "public/hero.png", "url")),
        ("/src/data.json", module(&files, "src/data.json", "module")),
        ("/src/font.woff2?url", module(&files, "src/font.woff2", "url")),
        ("/src/late.css", module(&files, "src/late.css", "module")),
        ("/src/lib", module(&files, "src/lib/index.ts", "module")),
        ("/src/lib/math.js", module(&files, "src/lib/math.ts", "module")),
        ("/src/logo.svg", module(&files, "src/logo.svg", "url")),
        ("/src/main.tsx", module(&files, "src/main.tsx", "module")),
        ("/src/notes.md?raw", module(&files, "src/notes.md", "raw")),
        ("/src/pages/About", module(&files, "src/pages/About.tsx", "module")),
        ("/src/pages/about.css", module(&files, "src/pages/about.css", "module")),
        ("/src/styles/index.css", module(&files, "src/styles/index.css", "module")),
        ("lucide-react", format!("{pack}/lucide-react.js?names=Check,Plus")),
        ("react-dom/client", format!("{pack}/react-dom-client.js")),
        ("react/jsx-runtime", format!("{pack}/react-jsx-runtime.js")),
    ];
    assert_eq!(imports(&page), expected.map(|(key, address)| (key.to_owned(), address)).into());
    let preloaded = |path: &str| page.html.contains(&format!("<link rel=\"modulepreload\" href=\"{path}\">"));
    assert!(preloaded(&format!("{pack}/lucide/create.js")) && preloaded(&module(&files, "src/lib/math.ts", "module")));
    assert!(!preloaded(&module(&files, "src/pages/About.tsx", "module")), "what is imported dynamically can wait");

    let styles: Vec<_> = page.html.split("<style").skip(1).map(|rest| rest.split("</style>").next().unwrap()).collect();
    assert_eq!(
        styles,
        [
            ">@import 'https://fonts.test/a.css';",
            " type=\"text/tailwindcss\">; b { color: red }",
            " type=\"text/tailwindcss\">;@import \"tailwindcss\"; @layer base {.a { background: url(\"/src/logo.svg#x\") } \
             .b { background: url(\"/hero.png\") }} ",
            " type=\"text/tailwindcss\">;i { color: blue }",
        ],
        "in the order in which the modules run"
    );
    for shown in ["public/icon.png", "public/hero.png", "src/ding.mp3", "src/styles/base.css", "src/logo.svg"] {
        assert!(page.files.contains_key(shown), "{shown} can change what is shown");
    }
}

#[test]
fn what_is_used_of_a_barrel_decides_what_is_loaded_of_it() {
    let pack = format!("/@baton/{}/lucide-react.js", packages().id());
    for (main, expected) in [
        ("import { Plus, Check } from 'lucide-react'; export { Plus, Check };", format!("{pack}?names=Check,Plus")),
        ("import * as icons from 'lucide-react'; console.log(icons);", pack.clone()),
        ("export * from 'lucide-react';", pack.clone()),
        ("import 'lucide-react';", pack.clone()),
        ("import { Check } from 'lucide-react'; import('lucide-react'); export { Check };", pack.clone()),
    ] {
        assert_eq!(imports(&page(&project(main, &[])).unwrap())["lucide-react"], expected, "{main}");
    }
}

// N7
#[test]
fn a_revision_changes_exactly_when_what_is_shown_can() {
    let reader = reader();
    let revision = |files: &Files| reader.page(files, &packages()).unwrap().revision;
    let base = project("console.log('/a.png'); import './index.css';", &[("public/a.png", "1")]);
    let first = revision(&base);
    assert_eq!(revision(&base), first);
    for (path, content) in [("README.md", "x"), ("src/unused.ts", "syntax error"), ("public/b.png", "x")] {
        assert_eq!(revision(&base.clone().with(path, content)), first, "{path} is not shown");
    }
    for (path, content) in
        [("public/a.png", "2"), ("src/index.css", "a {}"), ("src/main.tsx", "console.log(1)"), ("index.html", "<p>hi")]
    {
        assert_ne!(revision(&base.clone().with(path, content)), first, "{path} is shown");
    }
}

#[test]
fn the_build_constants_stand_in_the_document() {
    let files = template().with("index.html", "<link rel=icon href=\"%BASE_URL%a.svg\"><title>%MODE% 100%</title>");
    let html = page(&files).unwrap().html;
    assert!(html.contains("href=\"/a.svg\"") && html.contains("<title>production 100%</title>"), "{html}");
}

// N7
#[test]
fn nothing_of_a_project_breaks_out_of_the_page() {
    let attack = "</script></style><script>alert(1)</script>";
    let files = project(
        &format!("import './\"><b>.ts'; import './a.css'; import x from './x.txt?raw'; console.log(x, '{attack}')"),
        &[
            ("src/\"><b>.ts", ""),
            (
                "src/a.css",
                &format!("/* {attack} */ a::after {{ content: '{attack}'; background: url('<{attack}.png') }}"),
            ),
            ("src/x.txt", attack),
        ],
    );
    let html = page(&files).unwrap().html;
    assert!(!html.contains("alert(1)</script>") && !html.contains("\"><b>"), "{html}");
    assert_eq!(html.matches("</style>").count(), 1);

    let files = project(&format!("import '{attack}'"), &[]);
    assert_eq!(told(&page(&files).unwrap_err()).len(), 1, "not even a good name of a package");
}
