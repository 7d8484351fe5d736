//! What a browser gets.

use source::Served;

use crate::files::{Files, packages, project, reader};

fn text(served: &Served) -> &str {
    std::str::from_utf8(&served.body).unwrap()
}

fn files() -> Files {
    project(
        "export const mode = import.meta.env.MODE, node: string = process.env.NODE_ENV;\nexport const a = <p>{mode}</p>;\n",
        &[
            ("src/data.json", "\u{feff}{\"title\":\"</script>\",\"a b\":1,\"default\":2}"),
            ("src/logo.svg", "<svg/>"),
            ("src/Grüße und.md", "\"a\"\u{2028}"),
            ("src/broken.ts", "const = 1"),
            ("public/hero.png", "png"),
            ("public/robots", "robots"),
            (".env", "SECRET=1"),
        ],
    )
}

// N7
#[test]
fn a_file_is_served_as_what_its_address_asks_for() {
    let (files, reader) = (files(), reader());
    let main = "import { jsx as _jsx } from \"react/jsx-runtime\";\nexport const mode = \"production\", node = \"production\";\n\
                export const a = _jsx(\"p\", { children: mode });\n";
    let json = "const json = JSON.parse(\"{\\\"title\\\":\\\"</script>\\\",\\\"a b\\\":1,\\\"default\\\":2}\");\nexport default json;\n\
                const member0 = json[\"title\"];\nexport { member0 as title };\n";
    for (path, file, form, expected) in [
        ("/src/main.tsx", "src/main.tsx", "module", main),
        ("/src/data.json", "src/data.json", "module", json),
        ("/src/index.css", "src/index.css", "module", "export {};\n"),
        ("/src/logo.svg", "src/logo.svg", "url", "export default \"/src/logo.svg\";\n"),
        ("/hero.png", "public/hero.png", "url", "export default \"/hero.png\";\n"),
        ("/src/Gr%C3%BC%C3%9Fe%20und.md", "src/Grüße und.md", "raw", "export default \"\\\"a\\\"\u{2028}\";\n"),
    ] {
        let served = reader.serve(&files, path, &format!("{form}={}", files.hash(file))).unwrap();
        assert_eq!(text(&served), expected);
        assert_eq!(served.content_type, "text/javascript; charset=utf-8");
    }
    for (path, kind) in [
        ("/src/logo.svg", "image/svg+xml; charset=utf-8"),
        ("/hero.png", "image/png"),
        ("/robots", "application/octet-stream"),
    ] {
        let served = reader.serve(&files, path, "").unwrap();
        assert_eq!(served.content_type, kind, "{path} {}", served.content_type);
    }
}

#[test]
fn nothing_else_is_served() {
    let (files, reader) = (files(), reader());
    let hash = |path: &str| files.hash(path).to_owned();
    for (path, query) in [
        ("/src/main.tsx", String::new()),
        ("/src/data.json", String::new()),
        ("/.env", String::new()),
        ("/index.html", String::new()),
        ("/src/main.tsx", "module=0000000000000000".into()),
        ("/src/main.tsx", "module=".into()),
        ("/src/main.tsx", format!("url={}", hash("src/main.tsx"))),
        ("/src/broken.ts", format!("module={}", hash("src/broken.ts"))),
        ("/src/logo.svg", format!("module={}", hash("src/logo.svg"))),
        ("/src/../.env", String::new()),
        ("/src/%2e%2e/.env", String::new()),
        ("/%FF", String::new()),
        ("/", String::new()),
        ("", String::new()),
        ("src/logo.svg", String::new()),
    ] {
        assert_eq!(reader.serve(&files, path, &query), None, "{path}?{query}");
    }
}

#[test]
fn packages_are_served_by_module_and_by_name() {
    let packages = packages();
    let body = |path: &str, query: &str| packages.serve(path, query).map(|served| text(&served).to_owned());
    assert_eq!(body("react-dom-client.js", "").unwrap(), "import \"./chunk.js\"; export const createRoot = 1;");
    assert_eq!(
        body("lucide-react.js", "names=Check,createLucideIcon").unwrap(),
        "export { default as Check } from \"./lucide/check.js\";\nexport { createLucideIcon as createLucideIcon } from \"./lucide/create.js\";\n"
    );
    assert_eq!(body("tailwind.js", "").unwrap(), "/* tailwind */");
    for (path, query) in
        [("gone.js", ""), ("lucide-react.js", "names=Gone"), ("react.js", "names=useState"), ("react.js", "x")]
    {
        assert_eq!(body(path, query), None, "{path}?{query}");
    }
    for (json, expected) in [
        ("{", "instant.json cannot be read"),
        (r#"{"format":2,"packages":{},"modules":{}}"#, "instant.json has format 2"),
        (r#"{"format":1,"packages":{"a":{"module":"a.js"}},"modules":{}}"#, "instant.json names the module a.js"),
        (
            r#"{"format":1,"packages":{"a":{"module":"a","exports":{"b;c":{"module":"a","name":"d"}}}},"modules":{"a":""}}"#,
            "instant.json names the name b;c",
        ),
    ] {
        let error = source::Packages::read(json.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

// N7
#[test]
fn an_exception_is_found_in_the_source() {
    let source = "import { useState } from 'react';\ntype Long = {\n  a: 1;\n};\nexport function é() {\n  const [a] = useState<Long>();\n  throw new Error(`${a}`);\n}\n";
    let (files, reader) = (project(source, &[]), reader());
    let hash = files.hash("src/main.tsx");
    let served = reader.serve(&files, "/src/main.tsx", &format!("module={hash}")).unwrap();
    let (line, code) = text(&served).lines().enumerate().find(|(_, line)| line.contains("throw")).unwrap();
    let column = code.find("new Error").unwrap() + 1;
    let at = |line: usize, column: usize| {
        let (line, column) = (u32::try_from(line).unwrap(), u32::try_from(column).unwrap());
        reader.origin(&files, "/src/main.tsx", hash, line, column).map(|place| place.to_string())
    };
    assert_eq!(at(line + 1, column).as_deref(), Some("src/main.tsx:7:9"));
    assert_eq!(at(9_999, 1), None);
    assert_eq!(at(0, 0), None);
    assert_eq!(reader.origin(&files, "/src/main.tsx", "00", 1, 1), None, "of another state of the file");
    assert_eq!(reader.origin(&files, "/src/gone.tsx", hash, 1, 1), None);
}
