//! What a person at a command line can do about a refusal. The server's own advice is for programs that speak HTTP.

use contract::problem::Problem;
use reqwest::StatusCode;

/// Whether something is in the way that ends by itself: a limit, or a run that has the project.
pub fn is_busy(status: StatusCode, problem: &Problem) -> bool {
    status == StatusCode::TOO_MANY_REQUESTS || problem.code == "project_busy"
}

/// What to do.
pub fn of(problem: &Problem) -> String {
    let advice = match problem.code.as_str() {
        "no_such_run" => "`baton runs` lists them",
        "no_such_chat" => "`baton chats` lists them",
        "no_such_project" => "`baton chats` lists the chats, each with its project",
        "no_such_version" => "`baton versions CHAT` lists them",
        "unknown_step" => "name one that has begun; `baton events RUN` shows them",
        "unknown_model" => {
            "name a model that this Baton reaches, or leave --model out; `baton doctor` names the usual one"
        }
        "unauthenticated" | "owner_token_needed" => {
            "name the data folder of that server with --data DIR, or set its BATON_OWNER_TOKEN (`baton token` prints it)"
        }
        "bad_cursor" => "begin without a cursor, or after an event that there is",
        "no_such_route" | "method_not_allowed" | "bad_path" | "bad_query" | "bad_body" | "unsupported_media_type" => {
            "is the server of another version than this command? see `baton --version`"
        }
        "project_busy" => {
            let Some(run) = problem.run_id else { return "wait until the project's run has ended, or stop it".into() };
            return format!(
                "wait until it has ended (`baton events {run} --follow`), or stop it: `baton cancel {run}`"
            );
        }
        _ => return problem.action.clone(),
    };
    advice.to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Every refusal that the server's sources know, as `"code", "action"` of its table.
    fn table() -> Vec<(String, String)> {
        let source = include_str!("../../../server/src/reply.rs");
        let rows = source.lines().filter(|line| line.trim_start().contains(" = ") && line.ends_with("\";"));
        let row = |line: &str| -> Option<(String, String)> {
            let (_, rest) = line.split_once(", ")?;
            let texts: Value = serde_json::from_str(&format!("[{}]", rest.trim_end_matches(';'))).ok()?;
            Some((texts[0].as_str()?.to_owned(), texts[1].as_str()?.to_owned()))
        };
        rows.filter_map(row).collect()
    }

    #[test]
    fn a_project_that_is_busy_is_told_as_a_chat_that_is() {
        let run = contract::RunId::from_bits(7);
        let problem = serde_json::json!({"type": "", "title": "", "status": 409, "code": "project_busy", "detail": "", "action": "", "run_id": run});
        let problem = serde_json::from_value(problem).unwrap();
        assert!(is_busy(StatusCode::CONFLICT, &problem) && of(&problem).contains(&format!("baton cancel {run}")));
    }

    #[test]
    fn a_person_at_a_command_line_is_never_sent_to_the_api() {
        let table = table();
        assert!(table.len() > 40, "{}", table.len());
        for (code, action) in table {
            let problem = serde_json::json!({"type": "", "title": "", "status": 409, "code": code, "detail": "", "action": action});
            let told = of(&serde_json::from_value(problem).unwrap());
            // What only a browser or a program can have sent, no command meets.
            let browsers =
                ["misdirected", "bad_origin", "bad_if_match", "bad_idempotency_key", "no_such_page", "no_such_file"];
            let is_http = ["GET ", "POST ", "/v1/", "Send `", "`run_id`"].iter().any(|word| told.contains(word));
            assert!(!is_http || browsers.contains(&code.as_str()), "{code}: {told}");
        }
    }
}
