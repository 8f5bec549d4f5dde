//! Each JSON output is checked against the schema of the guide.

use std::fs;

use anyhow::{Result, anyhow};
use boon::{Compiler, SchemaIndex, Schemas};
use serde_json::{Value, json};

use crate::guide::shown;

/// The schema of one subcommand's output.
pub(crate) struct Schema {
    all: Schemas,
    one: SchemaIndex,
}

impl Schema {
    /// Stricter than the guide's schema, which allows new fields: here each field must be named.
    pub(crate) fn of(subcommand: &str) -> Result<Self> {
        const NAME: &str = "output.schema.json";
        let mut schema: Value = serde_json::from_str(&fs::read_to_string(shown(NAME))?)?;
        close(&mut schema);
        let (mut compiler, mut all) = (Compiler::new(), Schemas::new());
        let wrong = |error: &dyn std::fmt::Display| anyhow!("{subcommand}: {error:#}");
        compiler.add_resource(NAME, schema).map_err(|error| wrong(&error))?;
        let place = format!("{NAME}#/$defs/{subcommand}");
        let one = compiler.compile(&place, &mut all).map_err(|error| wrong(&error))?;
        Ok(Self { all, one })
    }

    pub(crate) fn check(&self, document: &Value) -> Result<()> {
        let checked = self.all.validate(document, self.one);
        checked.map_err(|error| anyhow!("{document}: {error:#}"))
    }

    /// Checks each line of an output.
    pub(crate) fn check_lines(&self, output: &str) -> Result<()> {
        output.lines().try_for_each(|line| self.check(&serde_json::from_str(line)?))
    }
}

/// Makes the schema refuse unnamed fields everywhere.
fn close(schema: &mut Value) {
    match schema {
        Value::Array(schemas) => schemas.iter_mut().for_each(close),
        Value::Object(parts) => {
            // A part without a type, such as `if`, is no whole object.
            let is_whole = parts.contains_key("properties") && parts.contains_key("type");
            parts.values_mut().for_each(close);
            if is_whole {
                parts.insert("unevaluatedProperties".to_owned(), json!(false));
            }
        }
        _ => {}
    }
}

#[test]
fn the_schema_refuses_what_is_not_documented() -> Result<()> {
    let fence = Schema::of("fence")?;
    fence.check(&json!({ "key": "k", "fence": null }))?;
    assert!(fence.check(&json!({ "key": "k", "fence": "7" })).is_err());
    assert!(fence.check(&json!({ "key": "k", "fence": null, "more": 1 })).is_err());
    let status = Schema::of("status")?;
    status.check(&json!({ "key": "k", "held": false }))?;
    assert!(status.check(&json!({ "key": "k", "held": true })).is_err());
    let watch = Schema::of("watch")?;
    watch.check(&json!({ "error": "away" }))?;
    assert!(watch.check(&json!({ "error": "away", "locks": [], "corrupt": 0 })).is_err());
    assert!(Schema::of("run").is_err());
    Ok(())
}
