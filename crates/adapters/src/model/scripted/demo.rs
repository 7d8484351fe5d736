//! The built-in demo model: the scripts of `/demo`, compiled into the program. It says that it is a demo wherever it is shown.

use contract::event::{ModelRef, Provider};

use super::compile::ScriptError;
use super::model::ScriptedModel;
use super::scripts::Scripts;

/// The demo model's name.
pub const DEMO_MODEL: &str = "demo";

/// In the order in which they are tried: the starter answers whatever the others do not.
const SOURCES: [(&str, &str); 7] = [
    ("demo/landing.yaml", include_str!("../../../../../demo/landing.yaml")),
    ("demo/snake.yaml", include_str!("../../../../../demo/snake.yaml")),
    ("demo/kanban.yaml", include_str!("../../../../../demo/kanban.yaml")),
    ("demo/expenses.yaml", include_str!("../../../../../demo/expenses.yaml")),
    ("demo/notes.yaml", include_str!("../../../../../demo/notes.yaml")),
    ("demo/todo.yaml", include_str!("../../../../../demo/todo.yaml")),
    ("demo/starter.yaml", include_str!("../../../../../demo/starter.yaml")),
];

/// The demo's scripts.
///
/// # Errors
/// None in a program that passed its tests.
pub fn demo_scripts() -> Result<Scripts, ScriptError> {
    Scripts::read(SOURCES)
}

/// The demo model, in process.
///
/// # Errors
/// None in a program that passed its tests.
pub fn demo_model() -> Result<ScriptedModel, ScriptError> {
    Ok(ScriptedModel::new(demo_scripts()?, ModelRef { provider: Provider::Demo, name: DEMO_MODEL.to_owned() }))
}

#[cfg(test)]
mod tests {
    use runtime::ports::model::{PromptMessage, Speaker};

    use super::super::expect::Asked;
    use super::super::plan::Outcome;
    use super::*;

    fn first_turn(request: &str) -> (String, Outcome) {
        let text = format!("# Project files\n\n(no files yet)\n\n# Request\n\n````\n{request}\n````\n");
        let messages =
            vec![PromptMessage::new(Speaker::System, "instructions"), PromptMessage::new(Speaker::User, text)];
        let asked = Asked { model: DEMO_MODEL.into(), stream: true, include_usage: true, messages };
        let answered = demo_scripts().unwrap().answer(&asked).unwrap();
        (answered.script, answered.plan.outcome)
    }

    #[test]
    fn every_sentence_gets_an_answer_from_the_script_that_it_is_about() {
        let table = [
            ("a landing page for a to-do app", "landing page"),
            ("a website for my bakery", "landing page"),
            ("a website to track my expenses", "expense tracker"),
            ("Build me a snake game", "snake"),
            ("a to-do list for the care of my snake", "to-do list"),
            ("Build me a to-do list", "to-do list"),
            ("a todo app please", "to-do list"),
            ("make a kanban board for my to-dos", "kanban board"),
            ("An expense tracker with a chart", "expense tracker"),
            ("Markdown notes with checklists", "Markdown notes"),
            ("an app for my notes", "Markdown notes"),
            ("a weather dashboard for sailors", "starter"),
            ("</script>\u{0}@@", "starter"),
        ];
        for (request, script) in table {
            let (name, outcome) = first_turn(request);
            assert_eq!(name, script, "{request}");
            assert!(matches!(outcome, Outcome::Steps(steps) if steps.len() > 10), "{request}");
        }
    }
}
