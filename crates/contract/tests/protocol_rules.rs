//! Every rule of contracts.md § 2 as rows of one table: what a model says, and the frames that it means (E7).
//!
//! Frames are written short: `"text"`, `thinking["…"]`, `file a.ts["…"]` (`]!` if it is incomplete), `sandbox project/base(` … `)`,
//! and everything else by its name and fields. Each row is also checked in every chunking.

use contract::protocol::check::{check, read};
use contract::protocol::{Dialect, ErrorCode, Frame};

type Rows = &'static [(&'static str, &'static str)];

/// A rule, and rows of what a model says and the frames that it means.
macro_rules! rules {
    ($($rule:literal { $($said:literal => $meant:literal)* })*) => {
        &[$(($rule, &[$(($said, $meant)),*])),*]
    };
}

fn short(frames: &[Frame<'_>]) -> String {
    let words = frames.iter().map(|frame| match frame {
        Frame::Text { content } | Frame::ThinkingContent { content } | Frame::FileContent { content } => {
            format!("{content:?}")
        }
        Frame::ThinkingStart => "thinking[".into(),
        Frame::ThinkingEnd | Frame::FileEnd { complete: true } => "]".into(),
        Frame::FileEnd { complete: false } => "]!".into(),
        Frame::SandboxStart { project: None, base: None } => "sandbox(".into(),
        Frame::SandboxStart { project, base } => {
            format!("sandbox {}/{}(", project.as_deref().unwrap_or(""), base.as_deref().unwrap_or(""))
        }
        Frame::SandboxEnd => ")".into(),
        Frame::FileStart { path } => format!("file {path}["),
        Frame::Edit { path, blocks } => {
            let blocks: Vec<_> = blocks.iter().map(|b| format!("{:?}=>{:?}", b.search, b.replace)).collect();
            format!("edit {path} {}", blocks.join(" "))
        }
        Frame::Delete { path } => format!("delete {path}"),
        Frame::Rename { from, to } => format!("rename {from} {to}"),
        Frame::Install { packages, framework } => match framework {
            Some(framework) => format!("install {} for {framework}", packages.join(" ")),
            None => format!("install {}", packages.join(" ")),
        },
        Frame::Command { command, args } => format!("command {command} {args:?}"),
        Frame::WebSearch { query, max_results: None } => format!("search {query:?}"),
        Frame::WebSearch { query, max_results: Some(most) } => format!("search {query:?} {most}"),
        Frame::UrlScrape { url } => format!("scrape {url}"),
        Frame::Skill { name, input } => format!("skill {name} {input}"),
        Frame::Done => "done".into(),
        Frame::Error(fault) => format!("error({}: {})", fault.element.as_str(), fault.code.as_str()),
    });
    words.collect::<Vec<_>>().join(" ")
}

#[track_caller]
fn holds(dialect: Dialect, rules: &[(&str, Rows)]) {
    let mut wrong = String::new();
    for (rule, rows) in rules {
        for (input, expected) in *rows {
            let got = short(&read(dialect, input.as_bytes(), 0));
            if got != *expected {
                wrong += &format!("{rule}\n  input    {input:?}\n  expected {expected}\n  got      {got}\n");
            }
            check(input.as_bytes());
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
}

const TAGS: &[(&str, Rows)] = rules! {
    "text is text, and unknown tags are text" {
        "" => ""
        "Hello,\n world\n" => r#""Hello,\n world\n""#
        "a <b>bold</b> move, 1 < 2 </p>" => r#""a <b>bold</b> move, 1 < 2 </p>""#
        "Map<string, File>, <files>, <filename x>, <file_x>, <un-done>"
            => r#""Map<string, File>, <files>, <filename x>, <file_x>, <un-done>""#
        "< file path='a'>, <<, </ file>, <>" => r#""< file path='a'>, <<, </ file>, <>""#
        "no entities: &lt;done&gt; &amp;" => r#""no entities: &lt;done&gt; &amp;""#
    }
    "every element" {
        "<thinking>why</thinking>" => r#"thinking[ "why" ]"#
        "<sandbox project='todo' base=\"vite-react\"></sandbox>" => "sandbox todo/vite-react( )"
        "<file path=\"src/App.tsx\">x</file>" => r#"file src/App.tsx[ "x" ]"#
        "<edit path='a.ts'>\n<<<<<<< SEARCH\nold\n=======\nnew\n>>>>>>> REPLACE\n</edit>" => r#"edit a.ts "old"=>"new""#
        "<delete path='a.ts'/>" => "delete a.ts"
        "<rename from='a.ts' to='b/c.ts'/>" => "rename a.ts b/c.ts"
        "<install>\nframework: vite-react\npackages: zustand, @tanstack/react-query@^5\n</install>"
            => "install zustand @tanstack/react-query@^5 for vite-react"
        r#"<command command="pnpm" args='["run","build"]'/>"# => r#"command pnpm ["run", "build"]"#
        "<command command='ls'/>" => "command ls []"
        r#"<web_search query="react 19" max_results="3"/>"# => r#"search "react 19" 3"#
        "<web_search query='x'/>" => r#"search "x""#
        "<url_scrape url='https://example.org/?a=1&b=2'/>" => "scrape https://example.org/?a=1&b=2"
        r#"<skill name="pdf">{"pages": [1, 2]}</skill>"# => r#"skill pdf {"pages":[1,2]}"#
        "<done/>" => "done"
    }
    "names and attributes in any letter case; prefixes are aliases" {
        "<Thinking>a</THINKING>" => r#"thinking[ "a" ]"#
        "<EDWARD_Sandbox PROJECT='p'></baton_sandbox>" => "sandbox p/( )"
        "<baton_file Path='a'>x</Edward_File>" => r#"file a[ "x" ]"#
        "<edward_command COMMAND='ls' ARGS='[]'>" => "command ls []"
        "<edward_web_search query='x' Max_Results='2'>" => r#"search "x" 2"#
        "<think>hm</think>" => r#"thinking[ "hm" ]"#
        "<baton_edward_done/>, <batondone/>" => r#""<baton_edward_done/>, <batondone/>""#
    }
    "a name ends at a blank, a slash or the angle" {
        "<done>" => "done"
        "<done />" => "done"
        "<done\n/>" => "done"
        "<file\tpath='a'>x</file>" => r#"file a[ "x" ]"#
        "<file/path='a'>x</file>" => r#"file a[ "x" ]"#
        "<done!>" => r#""<done!>""#
    }
    "values in single, double or escaped quotes, or none; an angle in quotes is content" {
        "<delete path='a b'>" => "delete a b"
        r#"<delete path=\"a b\">"# => "delete a b"
        r"<delete path=\'a b\'/>" => "delete a b"
        "<delete path=a/b />" => "delete a/b"
        "<delete path = \"a\" >" => "delete a"
        "<delete\n  path=\"a\"\n/>" => "delete a"
        r#"<web_search query="a > b" max_results=5>"# => r#"search "a > b" 5"#
        r#"<web_search query='"a" <done/> b'/>x"# => r#"search "\"a\" <done/> b" "x""#
        r#"<command command="sh" args="[\"-c\",\"a > b\"]"/>"# => r#"command sh ["-c", "a > b"]"#
        r#"<command command=\"sh\" args=\"[\\\"-c\\\"]\"/>"# => r#"command sh ["-c"]"#
        r#"<web_search query="say \"hi\" > x"/>"# => r#"search "say \"hi\" > x""#
        "<delete path='a' path='b' other/>" => "delete a"
        "<url_scrape url='a&amp;b'/>" => "scrape a&amp;b"
    }
    "an element without a body acts at its angle; its closing tag is swallowed" {
        "<command command='ls'>." => r#"command ls [] ".""#
        "<command command='ls'></command>." => r#"command ls [] ".""#
        "<delete path='a'/></delete ><done></edward_done>" => "delete a done"
        "<web_search query='a'>x</web_search>" => r#"search "a" "x""#
        "a</command>b</done\n>c</url_scrape>" => r#""abc""#
    }
    "a closing tag of what is not open is swallowed" {
        "a</file>b</thinking></think></sandbox></install></edit></skill>c" => r#""abc""#
        "<file path='a'>x</file>\n</file>\ny" => r#"file a[ "x" ] "\n\ny""#
        "</file x>" => r#""</file x>""#
    }
    "one line break goes after the opening and before the closing tag; content is exact otherwise" {
        "<file path='a'>\nx\n</file>" => r#"file a[ "x" ]"#
        "<file path='a'>\r\nx\r\n</file>" => r#"file a[ "x" ]"#
        "<file path='a'>\n\nx\n\n</file>" => r#"file a[ "\nx\n" ]"#
        "<file path='a'>\r\n\r\nx\r\n\r\n</file>" => r#"file a[ "\r\nx\r\n" ]"#
        "<file path='a'>  \n\tx  \n  </file>" => r#"file a[ "  \n\tx  \n  " ]"#
        "<file path='a'>\rx\r</file>" => r#"file a[ "\rx\r" ]"#
        "<file path='a'></file>" => "file a[ ]"
        "<file path='a'>\n</file>" => "file a[ ]"
        "<file path='a'>\n\n</file>" => "file a[ ]"
        "<file path='a'>\n\n\n</file>" => r#"file a[ "\n" ]"#
        "<file path='a'>&lt;b&gt; &quot;</file>" => r#"file a[ "&lt;b&gt; &quot;" ]"#
        "<thinking>\na\n\n</thinking>\nb" => r#"thinking[ "a\n" ] "\nb""#
        "<thinking>\n</thinking>" => "thinking[ ]"
    }
    "in files other than Markdown a wrapping fence goes" {
        "<file path='a.ts'>\n```ts\nx\n```\n</file>" => r#"file a.ts[ "x" ]"#
        "<file path='a.ts'>```ts\r\nx\r\n```\r\n</file>" => r#"file a.ts[ "x" ]"#
        "<file path='a.ts'>\n  ~~~\nx\n\n ~~~~ \n</file>" => r#"file a.ts[ "x\n" ]"#
        "<file path='a.ts'>\n```ts\nx\n```</file>" => r#"file a.ts[ "x" ]"#
        "<file path='a.ts'>\n```ts\nx\n```\n\n</file>" => r#"file a.ts[ "x" ]"#
        "<file path='a.ts'>\n```\n```\n</file>" => "file a.ts[ ]"
        "<file path='a.ts'>\n```ts\nx\n</file>" => r#"file a.ts[ "x" ]"#
        "<file path='a.ts'>\n````\na\n```\nb\n````\n</file>" => r#"file a.ts[ "a\n```\nb" ]"#
        "<file path='a.ts'>\n```\na\n```\nb\n</file>" => r#"file a.ts[ "a\n```\nb" ]"#
        "<file path='a.ts'>\n```\na ```\n</file>" => r#"file a.ts[ "a ```" ]"#
        "<file path='a.ts'>\nx\n```\n</file>" => r#"file a.ts[ "x\n```" ]"#
        "<file path='a.ts'>\n\n```ts\nx\n```\n</file>" => r#"file a.ts[ "\n```ts\nx\n```" ]"#
        "<file path='a.ts'>\n``\nx\n</file>" => r#"file a.ts[ "``\nx" ]"#
        "<file path='a.ts'>```x```\n</file>" => r#"file a.ts[ "```x```" ]"#
        "<file path='a.ts'>```ts</file>" => r#"file a.ts[ "```ts" ]"#
        "<file path='a.ts'>\n```ts\nx\n```" => r#"file a.ts[ "x\n```" ]!"#
        "<file path='README.md'>\n```sh\nnpm i\n```\n</file>" => r#"file README.md[ "```sh\nnpm i\n```" ]"#
        "<file path='a.MDX'>\n```\n```\n</file>" => r#"file a.MDX[ "```\n```" ]"#
    }
    "</file> closes if it is the first thing on its line" {
        "<file path='a'>x\n</file> and on" => r#"file a[ "x" ] " and on""#
        "<file path='a'>x\n \t</file>y" => r#"file a[ "x\n \t" ] "y""#
        "<file path='a'></file>y" => r#"file a[ ] "y""#
    }
    "</file> closes if blanks and then a line end, the end or a tag follow; elsewhere it is content" {
        "<file path='a'>x</file>\ny" => r#"file a[ "x" ] "\ny""#
        "<file path='a'>x</file> \t\r\n" => r#"file a[ "x" ] " \t\r\n""#
        "<file path='a'>x</file>  " => r#"file a[ "x" ] "  ""#
        "<file path='a'>x</file><done/>" => r#"file a[ "x" ] done"#
        "<file path='a'>x</file> <file path='b'>y</file>" => r#"file a[ "x" ] " " file b[ "y" ]"#
        "<file path='a'>s = \"</file>\";\n</file>" => r#"file a[ "s = \"</file>\";" ]"#
        "<file path='a'>x</file><b>\n</file>" => r#"file a[ "x</file><b>" ]"#
        "<file path='a'>x</file><don" => r#"file a[ "x</file><don" ]!"#
        "<file path='a'>x</file >\n" => r#"file a[ "x" ] "\n""#
        "<file path='a'>x</filet>\n</file x>\n</file>" => r#"file a[ "x</filet>\n</file x>" ]"#
        // 64 blanks close, 65 do not.
        "<file path='a'>x</file>                                                                \n"
            => r#"file a[ "x" ] "                                                                \n""#
        "<file path='a'>x</file>                                                                 \n</file>"
            => r#"file a[ "x</file>                                                                 " ]"#
    }
    "inside file content only the closing tag is known" {
        "<file path='a'><done/><thinking><file path='b'>\n</sandbox></thinking></edit>\n</file>"
            => r#"file a[ "<done/><thinking><file path='b'>\n</sandbox></thinking></edit>" ]"#
    }
    "inside thinking only a tag that is the first thing on its line ends it" {
        "<thinking>I use <command command='ls'/> now</thinking>" => r#"thinking[ "I use <command command='ls'/> now" ]"#
        "<thinking>\nplan\n<file path='a'>x</file>" => r#"thinking[ "plan" ] file a[ "x" ]"#
        "<thinking>plan\n  <done/>" => r#"thinking[ "plan\n  " ] done"#
        "<thinking><done/></thinking>" => r#"thinking[ "<done/>" ]"#
        "<thinking>\n<done/>" => "thinking[ ] done"
        "<thinking>a\n<sandbox>\n<file path='a'>x</file>" => r#"thinking[ "a" ] sandbox( file a[ "x" ] )"#
        "<thinking>a\n<thinking>\n</file>\nb</thinking>" => r#"thinking[ "a\n<thinking>\n</file>\nb" ]"#
        "<thinking>a\n<file> needs a path\n<file path='a'>x</file>"
            => r#"thinking[ "a\n<file> needs a path" ] file a[ "x" ]"#
        "<thinking>a\n<command is cut" => r#"thinking[ "a\n<command is cut" ]"#
        "<thinking>a\n<file path='it</thinking>b" => r#"thinking[ "a\n<file path='it" ] "b""#
        "<thinking>never closed" => r#"thinking[ "never closed" ]"#
    }
    "a sandbox: blanks alone are nothing, text is text, a second opening is ignored, done closes it" {
        "<sandbox>\n  <file path='a'>x</file>\n\n  <file path='b'>y</file>\n</sandbox>\n"
            => r#"sandbox( file a[ "x" ] file b[ "y" ] ) "\n""#
        "<sandbox>\n  some words\n<done/>" => r#"sandbox( "\n  some words\n" ) done"#
        "<sandbox project='a'>\n<sandbox project='b'>\n<file path='a'>x</file></sandbox>"
            => r#"sandbox a/( file a[ "x" ] )"#
        "<sandbox>\n <b>\n</sandbox>" => r#"sandbox( "\n <b>\n" )"#
        "<sandbox>\n\n" => "sandbox( )"
        "<sandbox></sandbox><sandbox></sandbox></sandbox>" => "sandbox( ) sandbox( )"
        "<sandbox>\n<thinking>a</thinking>\n<command command='ls'/>\n</sandbox>"
            => r#"sandbox( thinking[ "a" ] command ls [] )"#
        "<file path='a'>x</file>\n\n<file path='b'>y</file>" => r#"file a[ "x" ] "\n\n" file b[ "y" ]"#
    }
    "an element with a body and a slash is an empty element" {
        "<file path='a'/>b" => r#"file a[ ] "b""#
        "<thinking/>a<sandbox/>b" => r#"thinking[ ] "a" sandbox( ) "b""#
        "<skill name='clock'/>." => r#"skill clock {} ".""#
        "<edit path='a'/>.<install/>." => r#"error(edit: bad_edit) "." error(install: bad_install) ".""#
    }
    "a tag cut off by the end is never acted on; what is open is closed as incomplete" {
        "a <don" => r#""a <don""#
        "a <done" => r#""a <done""#
        "a <done /" => r#""a <done /""#
        "the <file element" => r#""the <file element""#
        "<command command='rm' args='[\"-r"
            => r#""<command command='rm' args='[\"-r" error(command: incomplete_element)"#
        "<file path='a" => r#""<file path='a" error(file: incomplete_element)"#
        "<file path='a'>x\n" => r#"file a[ "x\n" ]!"#
        "<file path='a'>x\n</fil" => r#"file a[ "x\n</fil" ]!"#
        "<sandbox><file path='a'>" => "sandbox( file a[ ]! )"
        "<edit path='a'>\n<<<<<<< SEARCH\n" => "error(edit: incomplete_element)"
        "<install>react" => "error(install: incomplete_element)"
        "<skill name='a'>{}</skil" => "error(skill: incomplete_element)"
    }
    "the body of a refused element is skipped" {
        "<file>x <done/> </file>, <command command='ls'/>\n</file>y" => r#"error(file: missing_path) "y""#
        "<file path=''>x\n</file>y" => r#"error(file: missing_path) "y""#
        "<file path='/etc/passwd'>x</file>\ny" => r#"error(file: absolute_path) "\ny""#
        "<file path='C:\\x'>\n\n</file>" => "error(file: absolute_path)"
        "<file path='a/../../b'>x = '</file>';\n<command command='ls'/>\n</file>y" => r#"error(file: parent_path) "y""#
        "<file path='a\\b'></file>" => "error(file: bad_path)"
        "<file path='a//b'></file>" => "error(file: bad_path)"
        "<file path='a\nb'></file>" => "error(file: bad_path)"
        "<file path='./src/./a'></file>" => "file src/a[ ]"
        "<edit path='../a'>\n<<<<<<< SEARCH\n</edit>y" => r#"error(edit: parent_path) "y""#
        "<skill>{\"a\": 1}</skill>y" => r#"error(skill: missing_attribute) "y""#
        "<file path='../a'/>y" => r#"error(file: parent_path) "y""#
    }
    "bad attributes are a problem that the model is told about, and the element does not act" {
        "<delete/>" => "error(delete: missing_path)"
        "<rename from='a'/>" => "error(rename: missing_path)"
        "<rename from='a' to='../b'/>" => "error(rename: parent_path)"
        "<command args='[]'/>" => "error(command: missing_attribute)"
        "<command command=' '/>" => "error(command: missing_attribute)"
        "<command command='rm' args='[\"-r\", '/>" => "error(command: bad_args_json)"
        "<command command='rm' args='-r x'/>" => "error(command: bad_args_json)"
        "<command command='rm' args='{\"a\":1}'/>" => "error(command: bad_args_json)"
        "<command command='rm' args=''/>" => "error(command: bad_args_json)"
        "<command>ls</command>" => r#"error(command: missing_attribute) "ls""#
        "<web_search/>" => "error(web_search: missing_attribute)"
        "<web_search query='x' max_results='many'/>" => "error(web_search: bad_number)"
        "<web_search query='x' max_results='-1'/>" => "error(web_search: bad_number)"
        "<url_scrape href='x'/>" => "error(url_scrape: missing_attribute)"
    }
    "edits: several blocks, exact lines" {
        "<edit path='a'>\r\n<<<<<<< SEARCH\r\n  a\r\n\tb\r\n=======\r\n>>>>>>> REPLACE\r\n\r\n<<<<<<< SEARCH\r\nc\r\n=======\r\nd\r\n>>>>>>> REPLACE\r\n</edit>"
            => r#"edit a "  a\r\n\tb"=>"" "c"=>"d""#
        "<edit path='a'>\n<<<<<<< SEARCH\n\"</edit>\"\n=======\nb</edit>c\n>>>>>>> REPLACE\n</edit>."
            => r#"edit a "\"</edit>\""=>"b</edit>c" ".""#
        "<edit path='a'>\n<<<<<<< SEARCH\na\n=======\nb\n>>>>>>> REPLACE</edit><done/>" => r#"edit a "a"=>"b" done"#
        "<edit path='a'>\njust text\n</edit>" => "error(edit: bad_edit)"
        "<edit path='a'>\n<<<<<<< SEARCH\na\n>>>>>>> REPLACE\n</edit>" => "error(edit: bad_edit)"
        "<edit path='a'>\n<<<<<<< SEARCH\n=======\nb\n>>>>>>> REPLACE\n</edit>" => "error(edit: bad_edit)"
    }
    "installs and skills end at their first closing tag" {
        "<install>react</install> and then" => r#"install react " and then""#
        "<install>\n- react@19\n- \"@dnd-kit/core\"\n</install>" => "install react@19 @dnd-kit/core"
        "<install>npm install react</install>" => "error(install: bad_install)"
        "<install>\n</install>" => "error(install: bad_install)"
        "<skill name='a'>\n```json\n{\"b\": \"<done/>\"}\n```\n</skill>." => r#"skill a {"b":"<done/>"} ".""#
        "<skill name='a'>[1]</skill><skill name='a'>{</skill>" => "error(skill: bad_json) error(skill: bad_json)"
    }
    "prose about tags is text" {
        "the <file element and <file path='a'>x</file>" => r#""the <file element and " file a[ "x" ]"#
        "Array<File> and `<file>` and \"<Command>\"" => r#""Array<File> and `<file>` and \"<Command>\"""#
        "a<file path='a'>x</file>\n`<done/>" => r#""a" file a[ "x" ] "\n`" done"#
    }
    "a tag whose quotes do not match is bad, and its body is skipped" {
        "<command command='a' <done/>" => "error(command: bad_tag) done"
        r#"<command command="ls' args='["a"]'/>."# => r#"error(command: bad_tag) ".""#
        "<file path=\"a.tsx>\nimport x from \"y\";\n<b/><done/>\n</file>." => r#"error(file: bad_tag) ".""#
        "<file path=\"a.tsx>\nimport x from \"y\"; () => <b/><done/>\n</file>." => r#"error(file: bad_tag) ".""#
        "<sandbox project='it's'><file path='a'>x</file></sandbox>" => r#"sandbox it/( file a[ "x" ] )"#
        "<sandbox project='a' <file path='a'>x</file></sandbox>" => r#"error(sandbox: bad_tag) file a[ "x" ]"#
        "<thinking about='it's'>a</thinking>" => r#"thinking[ "a" ]"#
        "<thinking>a\n<command command='a'' />b</thinking>" => r#"thinking[ "a\n<command command='a'' />b" ]"#
    }
};

const FENCED: &[(&str, Rows)] = rules! {
    "a [FILE: path] line and a fenced block are a file" {
        "[FILE: src/a.ts]\n```ts\nx\n```\n" => r#"file src/a.ts[ "x" ] "\n""#
        "Here:\n\n  [file:a.ts]  \r\n\r\n```\r\nx\r\n```" => r#""Here:\n\n  " file a.ts[ "x" ]"#
        "[FILE: app/[id]/page.tsx]\n```\nx\n```" => r#"file app/[id]/page.tsx[ "x" ]"#
        "[FILE: a]\n```\nx\n```\n\n[FILE: b]\n~~~~\ny\n~~~~" => r#"file a[ "x" ] "\n\n" file b[ "y" ]"#
        "[FILE: a]\n```\n```" => "file a[ ]"
        "[FILE: a]\n```\n\n\nx\n\n```" => r#"file a[ "\n\nx\n" ]"#
    }
    "the block closes at a bare fence at least as long, followed by [FILE:, a tag or the end" {
        "[FILE: a.md]\n```md\n```sh\nls\n```\nmore\n```\n<done/>" => r#"file a.md[ "```sh\nls\n```\nmore" ] "\n" done"#
        "[FILE: a]\n````\n```\n````\n" => r#"file a[ "```" ] "\n""#
        "[FILE: a]\n```\nx\n`````  \n \n[FILE: b]\n```\ny\n```" => r#"file a[ "x" ] "\n \n" file b[ "y" ]"#
        "[FILE: a]\n```\nx\n~~~\n```" => r#"file a[ "x\n~~~" ]"#
        "[FILE: a]\n```\nx\n    ```\n```" => r#"file a[ "x\n    ```" ]"#
        "[FILE: a]\n```\nx\n  ```" => r#"file a[ "x" ]"#
        "[FILE: a]\n```\nx```\n```" => r#"file a[ "x```" ]"#
        "[FILE: a]\n```\nx\n```\n</thinking>" => r#"file a[ "x" ] "\n""#
        "[FILE: a]\n```\n</file>\n<done/>" => r#"file a[ "</file>\n<done/>" ]!"#
        "[FILE: a]\n```\nx\n``` js\n[FILE: b]" => r#"file a[ "x\n``` js\n[FILE: b]" ]!"#
        "[FILE: a]\n```\nx\n```\nwords" => r#"file a[ "x\n```\nwords" ]!"#
    }
    "a line without a block is text and an error" {
        "[FILE: a]\nwords" => r#""[FILE: a]" error(file: missing_block) "\nwords""#
        "[FILE: a]" => r#""[FILE: a]" error(file: missing_block)"#
        "see [FILE: a]\n```\nx\n```" => r#""see [FILE: a]\n```\nx\n```""#
        "[FILE: a](b)\n```\n```" => r#""[FILE: a](b)\n```\n```""#
        "[FIL" => r#""[FIL""#
        "[FILE: a" => r#""[FILE: a""#
    }
    "a refused block is skipped" {
        "[FILE: ../a]\n```\nx\n```\n<done/>" => r#"error(file: parent_path) "\n" done"#
        "[FILE: ]\n```\n<done/>\n```" => "error(file: missing_path)"
    }
    "tags are known too, and a block ends thinking that was not closed" {
        "<thinking>a</thinking>\n[FILE: a]\n```\n<b>\n```\n<command command='ls'/>"
            => r#"thinking[ "a" ] "\n" file a[ "<b>" ] "\n" command ls []"#
        "<think>a\n[FILE: is how]\nI write\n[FILE: a]\n```\nx\n```"
            => r#"thinking[ "a\n[FILE: is how]\nI write" ] file a[ "x" ]"#
        "<file path='a.ts'>\n```\nx\n```\n</file>" => r#"file a.ts[ "x" ]"#
        "<sandbox>\n[FILE: a]\n```\nx\n```\n</sandbox>" => r#"sandbox( file a[ "x" ] )"#
    }
};

#[test]
fn the_tags_dialect_reads_as_its_rules_say() {
    holds(Dialect::Tags, TAGS);
}

#[test]
fn the_fenced_dialect_reads_as_its_rules_say() {
    holds(Dialect::Fenced, FENCED);
    holds(
        Dialect::Tags,
        &[("in the tags dialect a [FILE: line is text", &[("[FILE: a]\n```\nx\n```", r#""[FILE: a]\n```\nx\n```""#)])],
    );
}

#[test]
fn bytes_that_are_not_utf8_become_the_replacement_character_in_any_chunking() {
    for (bytes, expected) in [
        (&b"a\xE2\x82\xACb"[..], "\"a\u{20AC}b\""),
        (b"a\xE2\x82b\xFF\xF0\x9F\x98", "\"a\u{FFFD}b\u{FFFD}\u{FFFD}\""),
        (b"\xE2\x82<done>\x80", "\"\u{FFFD}\" done \"\u{FFFD}\""),
        (b"<file path='a'>\xC3\n</file>", "file a[ \"\u{FFFD}\" ]"),
        (b"<web_search query='\xC3\xA9\xC3'>", "search \"\u{E9}\u{FFFD}\""),
    ] {
        assert_eq!(short(&read(Dialect::Tags, bytes, 0)), expected);
        check(bytes);
    }
}

#[test]
fn a_tag_is_at_most_64_kb_and_a_held_body_at_most_1_mb() {
    let tag = |len: usize| format!("<delete path='{}'/>.", "a".repeat(len - "<delete path=''/>".len()));
    let body = |len: usize| format!("<install>\n{}\n</install>.", "a\n".repeat(len / 2) + &"a"[..len % 2]);
    let file = format!("<file path='{}'>x</file>.\n</file>.", "a".repeat(64 * 1024));
    for (input, expected) in [
        (tag(64 * 1024), r#"error(delete: path_too_long) ".""#),
        (tag(64 * 1024 + 1), r#"error(delete: tag_too_long) ".""#),
        (file, r#"error(file: tag_too_long) ".""#),
        (body(1024 * 1024 + 1), r#"error(install: body_too_long) ".""#),
    ] {
        for chunk in [0, 16, 4096] {
            assert_eq!(short(&read(Dialect::Tags, input.as_bytes(), chunk)), expected);
        }
    }
    let fits = read(Dialect::Tags, body(1024 * 1024).as_bytes(), 512);
    assert!(matches!(&fits[0], Frame::Install { packages, .. } if packages.len() == 512 * 1024));
}

#[test]
fn frames_serialise_as_scripts_read_them_and_codes_are_stable() {
    let input = "hi<thinking>t</thinking><sandbox project='p'><file path='a'>x</file><edit path='a'>\n<<<<<<< SEARCH\ns\n=======\nr\n\
        >>>>>>> REPLACE\n</edit><delete path='a'/><rename from='a' to='b'/><install>framework: f\npackages: p</install>\
        <command command='c' args='[\"d\"]'/><web_search query='q' max_results='2'/><url_scrape url='u'/>\
        <skill name='n'>{\"i\":1}</skill><file path='/x'></file><done/>";
    let lines: Vec<_> =
        read(Dialect::Tags, input.as_bytes(), 0).iter().map(|f| serde_json::to_string(f).unwrap()).collect();
    insta::assert_snapshot!(lines.join("\n"), @r#"
    {"type":"text","content":"hi"}
    {"type":"thinking_start"}
    {"type":"thinking_content","content":"t"}
    {"type":"thinking_end"}
    {"type":"sandbox_start","project":"p"}
    {"type":"file_start","path":"a"}
    {"type":"file_content","content":"x"}
    {"type":"file_end","complete":true}
    {"type":"edit","path":"a","blocks":[{"search":"s","replace":"r"}]}
    {"type":"delete","path":"a"}
    {"type":"rename","from":"a","to":"b"}
    {"type":"install","packages":["p"],"framework":"f"}
    {"type":"command","command":"c","args":["d"]}
    {"type":"web_search","query":"q","max_results":2}
    {"type":"url_scrape","url":"u"}
    {"type":"skill","name":"n","input":{"i":1}}
    {"type":"error","code":"absolute_path","message":"the path is absolute; write it relative to the project, such as src/App.tsx","element":"file","path":"/x"}
    {"type":"sandbox_end"}
    {"type":"done"}
    "#);
    let codes = [
        ErrorCode::MissingPath,
        ErrorCode::AbsolutePath,
        ErrorCode::ParentPath,
        ErrorCode::BadPath,
        ErrorCode::PathTooLong,
        ErrorCode::MissingAttribute,
        ErrorCode::BadNumber,
        ErrorCode::BadArgsJson,
        ErrorCode::BadJson,
        ErrorCode::BadEdit,
        ErrorCode::BadInstall,
        ErrorCode::MissingBlock,
        ErrorCode::BadTag,
        ErrorCode::TagTooLong,
        ErrorCode::BodyTooLong,
        ErrorCode::IncompleteElement,
    ];
    let names = codes.map(|code| {
        assert_eq!(serde_json::to_value(code).unwrap(), code.as_str());
        code.as_str()
    });
    insta::assert_snapshot!(names.join(" "), @"missing_path absolute_path parent_path bad_path path_too_long missing_attribute bad_number \
        bad_args_json bad_json bad_edit bad_install missing_block bad_tag tag_too_long body_too_long incomplete_element");
}
