//! What holds of any text.

use proptest::collection::vec;
use proptest::prelude::*;

use crate::files::{packages, project, reader};

/// Pieces that parsers stumble over, one behind the other.
fn text(pieces: &'static [&'static str]) -> impl Strategy<Value = String> {
    vec(prop_oneof![8 => prop::sample::select(pieces).prop_map(str::to_owned), 1 => any::<char>().prop_map(String::from)], 0..60)
        .prop_map(|pieces| pieces.concat())
}

const SCRIPT: &[&str] = &[
    "import ",
    "export ",
    "default ",
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    "<",
    ">",
    "/",
    "=>",
    "=",
    ";",
    "\n",
    ",",
    "a",
    "B",
    "from ",
    "'./b'",
    "'./d.json'",
    "'./s.css'",
    "'react'",
    "as ",
    "type ",
    "enum ",
    "namespace ",
    "class ",
    "interface ",
    "const ",
    "function ",
    "async ",
    "await ",
    "`",
    "${",
    "//",
    "/*",
    "*/",
    "\"",
    "'",
    "</script>",
    "<A",
    "</A>",
    "/>",
    "@",
    "#",
    "?",
    ":",
    "!",
    "...",
    "import.meta.env",
    "1",
    "new URL('./a.png', import.meta.url)",
    "import('./b')",
    "export * from './b'",
    "é",
    "\u{feff}",
    "\r\n",
    "require('x')",
    "declare ",
];
const STYLE: &[&str] = &[
    "@import ",
    "'./s.css'",
    "'./t.css'",
    "\"tailwindcss\"",
    "url(",
    ")",
    "(",
    "'",
    "\"",
    "{",
    "}",
    ";",
    ":",
    "a",
    "./x.png",
    "/*",
    "*/",
    "\\",
    "</style>",
    "<!--",
    "@media ",
    "layer",
    "layer(a)",
    "supports(",
    "@theme",
    "@apply p-4",
    "\n",
    "[",
    "]",
    "#",
    "https://x.test",
    "@charset",
];
const DOCUMENT: &[&str] = &[
    "<html>",
    "<head>",
    "</head>",
    "<body>",
    "<script",
    "</script>",
    " type=module",
    " src=/src/main.tsx",
    ">",
    "<!--",
    "-->",
    "<style>",
    "</style>",
    "<link rel=stylesheet href=/src/s.css>",
    "<title>",
    "</title>",
    "'",
    "\"",
    "<template>",
    "<svg>",
    "<select>",
    "<base>",
    "a",
    "%MODE%",
    "<![CDATA[",
    "<noscript>",
    "<plaintext>",
    "&amp;",
    "=",
    "<script type=module src=/src/main.tsx></script>",
];

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    // N7
    #[test]
    fn any_project_is_a_page_or_has_problems(
        main in text(SCRIPT), other in text(SCRIPT), style in text(STYLE), second in text(STYLE), document in text(DOCUMENT), whole in any::<bool>(),
    ) {
        let document = if whole { "<script type=module src=/src/main.tsx></script>".to_owned() } else { document };
        let files = project(&main, &[("src/b.ts", &other), ("src/s.css", &style), ("src/t.css", &second), ("src/d.json", &second), ("index.html", &document)]);
        let (reader, packages) = (reader(), packages());
        let page = reader.page(&files, &packages);
        prop_assert_eq!(&page, &reader.page(&files, &packages), "known or not, it is the same");
        for problem in reader.check(&files) {
            prop_assert!(problem.code != source::Code::Unsupported);
        }
        match page {
            Err(problems) => prop_assert!(!problems.is_empty() && problems.len() <= 100),
            Ok(page) if whole => {
                // Everything in this document but one script is ours.
                let opened = page.html.matches("<script").count() - usize::from(page.html.contains("tailwind.js"));
                prop_assert_eq!(opened, 3, "{}", page.html);
                prop_assert_eq!(page.html.matches("<style").count(), page.html.matches("</style").count());
            }
            Ok(page) => prop_assert!(page.html.contains("<script type=\"importmap\">")),
        }
        for path in ["src/main.tsx", "src/b.ts", "src/s.css", "src/d.json"] {
            for form in ["module", "raw", "url"] {
                reader.serve(&files, &format!("/{path}"), &format!("{form}={}", files.hash(path)));
            }
            reader.origin(&files, &format!("/{path}"), files.hash(path), 1, 5);
        }
    }
}
