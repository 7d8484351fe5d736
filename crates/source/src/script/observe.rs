//! What a module does that can be seen in its source before it is transformed: dynamic imports, assets by address, components that
//! nothing declares, and what only a build can do.

use oxc::ast::ast::{
    CallExpression, Decorator, Expression, IdentifierReference, ImportExpression, JSXElementName, JSXMemberExpression,
    JSXMemberExpressionObject, JSXOpeningElement, NewExpression, Program, StaticMemberExpression, StringLiteral,
    TSExportAssignment, TSImportEqualsDeclaration, TSModuleReference,
};
use oxc::ast_visit::{Visit, walk};
use oxc::semantic::Scoping;
use oxc::span::GetSpan as _;

use super::{Fault, How, MENTIONS, Mention, Request, Script};

/// What `import.meta.env` holds whatever the project says.
const CONSTANT: [&str; 5] = ["MODE", "PROD", "DEV", "SSR", "BASE_URL"];

/// Looks through a program whose names are resolved.
pub(super) fn observe(program: &Program<'_>, scoping: &Scoping, script: &mut Script) {
    Observer { scoping, script }.visit_program(program);
}

struct Observer<'s> {
    scoping: &'s Scoping,
    script: &'s mut Script,
}

impl Observer<'_> {
    fn unsupported(&mut self, message: &str, at: u32) {
        if self.script.faults.len() < super::FAULTS {
            self.script.faults.push(Fault::unsupported(message, at));
        }
    }

    fn is_global(&self, name: &IdentifierReference<'_>) -> bool {
        name.reference_id.get().is_some_and(|id| !self.scoping.has_binding(id))
    }

    fn is_global_named(&self, expression: &Expression<'_>, names: &[&str]) -> bool {
        matches!(expression, Expression::Identifier(id) if names.contains(&id.name.as_str()) && self.is_global(id))
    }

    fn component(&mut self, name: &IdentifierReference<'_>) {
        let known = |mention: &Mention| mention.name == name.name.as_str();
        if self.is_global(name)
            && !self.script.undeclared.iter().any(known)
            && self.script.undeclared.len() < super::FAULTS
        {
            self.script.undeclared.push(Mention { name: name.name.to_string(), at: name.span.start });
        }
    }

    fn request(&mut self, specifier: &str, at: u32, how: How) {
        if self.script.requests.len() <= super::REQUESTS {
            let (specifier, names) = (specifier.to_owned(), vec![]);
            self.script.requests.push(Request { specifier, at, how, names, whole: true });
        }
    }
}

impl<'a> Visit<'a> for Observer<'_> {
    fn visit_import_expression(&mut self, it: &ImportExpression<'a>) {
        let at = it.source.span().start;
        match literal(&it.source) {
            _ if it.phase.is_some() || it.options.is_some() => {
                self.unsupported("an import() with options needs a build", it.span.start);
            }
            Some(specifier) => self.request(specifier, at, How::Dynamic),
            None => self.unsupported("an import() of a path that is put together at run time needs a build", at),
        }
        walk::walk_import_expression(self, it);
    }

    fn visit_new_expression(&mut self, it: &NewExpression<'a>) {
        if self.is_global_named(&it.callee, &["Worker", "SharedWorker"]) {
            self.unsupported("a worker needs a build", it.span.start);
        }
        if self.is_global_named(&it.callee, &["URL"])
            && let [path, base] = it.arguments.as_slice()
            && base.as_expression().is_some_and(is_own_address)
            && let Some(path) = path.as_expression().and_then(literal)
        {
            self.request(path, it.span.start, How::Address);
        }
        walk::walk_new_expression(self, it);
    }

    fn visit_call_expression(&mut self, it: &CallExpression<'a>) {
        if self.is_global_named(&it.callee, &["require"]) {
            self.unsupported("require() needs a build; import is what a browser understands", it.span.start);
        }
        walk::walk_call_expression(self, it);
    }

    fn visit_static_member_expression(&mut self, it: &StaticMemberExpression<'a>) {
        if is_environment(&it.object) && CONSTANT.contains(&it.property.name.as_str()) {
            return;
        }
        if is_import_meta(&it.object) {
            match it.property.name.as_str() {
                "env" => self.script.environment = true,
                "glob" | "globEager" => self.unsupported("import.meta.glob needs a build", it.span.start),
                _ => {}
            }
        }
        walk::walk_static_member_expression(self, it);
    }

    fn visit_jsx_opening_element(&mut self, it: &JSXOpeningElement<'a>) {
        match &it.name {
            JSXElementName::IdentifierReference(name) => self.component(name),
            JSXElementName::MemberExpression(member) => {
                if let Some(name) = first_name(member) {
                    self.component(name);
                }
            }
            JSXElementName::Identifier(_) | JSXElementName::NamespacedName(_) | JSXElementName::ThisExpression(_) => {}
        }
        walk::walk_jsx_opening_element(self, it);
    }

    fn visit_string_literal(&mut self, it: &StringLiteral<'a>) {
        let path = it.value.as_str();
        if path.starts_with('/') && path.contains('.') && self.script.mentions.len() < MENTIONS {
            self.script.mentions.push(path.to_owned());
        }
    }

    fn visit_decorator(&mut self, it: &Decorator<'a>) {
        self.unsupported("decorators need a build", it.span.start);
    }

    fn visit_ts_export_assignment(&mut self, it: &TSExportAssignment<'a>) {
        self.unsupported("`export =` needs a build", it.span.start);
        self.script.opaque = true;
        walk::walk_ts_export_assignment(self, it);
    }

    fn visit_ts_import_equals_declaration(&mut self, it: &TSImportEqualsDeclaration<'a>) {
        let external = matches!(it.module_reference, TSModuleReference::ExternalModuleReference(_));
        if external && it.import_kind.is_value() {
            self.unsupported("`import … = require()` needs a build", it.span.start);
        }
        walk::walk_ts_import_equals_declaration(self, it);
    }
}

/// The text of a string, or of a template without anything to fill in.
fn literal<'e>(expression: &'e Expression<'_>) -> Option<&'e str> {
    match expression {
        Expression::StringLiteral(text) => Some(text.value.as_str()),
        Expression::TemplateLiteral(template) if template.expressions.is_empty() => {
            template.quasis.first()?.value.cooked.as_ref().map(|text| text.as_str())
        }
        _ => None,
    }
}

fn is_import_meta(expression: &Expression<'_>) -> bool {
    matches!(expression, Expression::ImportMeta(_))
}

fn is_environment(expression: &Expression<'_>) -> bool {
    let Expression::StaticMemberExpression(member) = expression else { return false };
    member.property.name == "env" && is_import_meta(&member.object)
}

fn is_own_address(expression: &Expression<'_>) -> bool {
    let Expression::StaticMemberExpression(member) = expression else { return false };
    member.property.name == "url" && is_import_meta(&member.object)
}

/// `Icons` of `<Icons.Solid.Check />`.
fn first_name<'e, 'a>(member: &'e JSXMemberExpression<'a>) -> Option<&'e IdentifierReference<'a>> {
    let mut member = member;
    loop {
        match &member.object {
            JSXMemberExpressionObject::IdentifierReference(name) => return Some(name),
            JSXMemberExpressionObject::MemberExpression(inner) => member = inner,
            JSXMemberExpressionObject::ThisExpression(_) => return None,
        }
    }
}
