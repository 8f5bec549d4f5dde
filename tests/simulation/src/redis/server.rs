//! The server: scripts, and connections that hear of changes. One command is one step.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use mlua::{Function, Lua, Table, Value as LuaValue};
use serde_json::Value as Json;
use syncguard_redis::fred::types::Value;
use syncguard_redis::fred::types::scripts::Script;

use super::data::{self, Data};
use crate::server::Refusal;

/// The server's answer; an error is a text that begins with its code.
pub(crate) type Reply = Result<Value, String>;

/// A text in scripts that the server replaces: a planted flaw.
pub(crate) type Patch = (&'static str, &'static str);

/// Names of records, for the connections that had read them.
pub(crate) type Invalidations = Vec<(u64, Vec<u8>)>;

pub(crate) struct Server {
    lua: Lua,
    scripts: HashMap<Vec<u8>, Function>,
    patches: Vec<Patch>,
    /// Connections with CLIENT TRACKING, and who of them has read a record since its last change.
    trackers: BTreeSet<u64>,
    readers: BTreeMap<Vec<u8>, BTreeSet<u64>>,
    commands: u64,
}

/// A WAIT of this many finds no replica.
const UNREPLICATED: u64 = 50;

impl Server {
    pub(crate) fn new(patches: Vec<Patch>) -> mlua::Result<Self> {
        let lua = Lua::new();
        lua.set_app_data(Data::default());
        let globals = lua.globals();
        globals.set("redis", data::library(&lua)?)?;
        let json = lua.create_table()?;
        json.set("decode", lua.create_function(decode)?)?;
        globals.set("cjson", json)?;
        let (trackers, readers) = (BTreeSet::new(), BTreeMap::new());
        Ok(Self { lua, scripts: HashMap::new(), patches, trackers, readers, commands: 0 })
    }

    /// Loses connections and scripts. The data stay.
    pub(crate) fn restarts(&mut self) {
        self.scripts.clear();
        self.trackers.clear();
        self.readers.clear();
    }

    /// Refuses all writes from now on, or takes them again.
    pub(crate) fn refuses(&mut self, refusal: Option<Refusal>) {
        data::data(&self.lua).refusal = refusal;
    }

    pub(crate) fn closes(&mut self, connection: u64) {
        self.trackers.remove(&connection);
        for readers in self.readers.values_mut() {
            readers.remove(&connection);
        }
        self.readers.retain(|_, readers| !readers.is_empty());
    }

    /// The number of records of locks.
    pub(crate) fn live(&mut self, now: u64) -> u64 {
        let mut data = data::data(&self.lua);
        data.now = now;
        data.count(|name| {
            // After the prefix; with a hash tag, the prefix ends with a brace.
            let name = String::from_utf8_lossy(name);
            let rest = name.split_once(':').map_or("", |(_, rest)| rest);
            !rest.starts_with("id:") && !rest.starts_with("fence:")
        })
    }

    /// Carries out a command of a connection. `now` is in microseconds since 1970.
    pub(crate) fn carry_out(
        &mut self,
        now: u64,
        connection: u64,
        command: &str,
        words: &[Value],
    ) -> (Reply, Invalidations) {
        self.commands += 1;
        {
            let mut data = data::data(&self.lua);
            data.now = now;
            data.has_written = false;
            data.read = self.trackers.contains(&connection).then(Vec::new);
            // Redis deletes records that are over from time to time, and tells of it.
            if self.commands.is_multiple_of(5000) {
                data.expire(None);
            } else if self.commands.is_multiple_of(100) && !self.readers.is_empty() {
                data.expire(Some(self.readers.keys().cloned().collect()));
            }
        }
        let reply = self.answer(now, connection, command, words);
        (reply, self.invalidations(connection))
    }

    /// FLUSHALL.
    pub(crate) fn flushes(&mut self) -> Invalidations {
        data::data(&self.lua).flush();
        self.invalidations(0)
    }

    fn invalidations(&mut self, connection: u64) -> Invalidations {
        let mut data = data::data(&self.lua);
        let mut told = Vec::new();
        for name in std::mem::take(&mut data.changed) {
            let readers = self.readers.remove(&name).unwrap_or_default();
            told.extend(readers.into_iter().map(|reader| (reader, name.clone())));
        }
        for name in data.read.take().unwrap_or_default() {
            self.readers.entry(name).or_default().insert(connection);
        }
        told
    }

    fn answer(&mut self, now: u64, connection: u64, command: &str, words: &[Value]) -> Reply {
        let text = |text: &str| Ok(Value::from(text));
        match command {
            "TIME" => {
                let parts = [now / 1_000_000, now % 1_000_000];
                Ok(Value::Array(parts.map(|part| part.to_string().into()).into()))
            }
            "PING" => text("PONG"),
            "INFO" => text("role:master\r\nconnected_slaves:1\r\ncluster_enabled:0\r\n"),
            "WAIT" => Ok(i64::from(!self.commands.is_multiple_of(UNREPLICATED)).into()),
            "CLIENT" => {
                self.trackers.insert(connection);
                text("OK")
            }
            "EVALSHA" | "EVAL" => self.script(command == "EVAL", words),
            other => panic!("the command {other}"),
        }
    }

    fn script(&mut self, is_in_full: bool, words: &[Value]) -> Reply {
        let [script, Value::Integer(count), rest @ ..] = words else { panic!("no script") };
        let (keys, arguments) = rest.split_at(usize::try_from(*count).expect("a number"));
        let script = bytes(script);
        let function = if is_in_full {
            self.load(script).expect("a script")
        } else if let Some(function) = self.scripts.get(&script) {
            function.clone()
        } else {
            return Err("NOSCRIPT No matching script. Please use EVAL.".to_owned());
        };
        let run = || {
            let globals = self.lua.globals();
            globals.raw_set("KEYS", table(&self.lua, keys)?)?;
            globals.raw_set("ARGV", table(&self.lua, arguments)?)?;
            function.call::<LuaValue>(())
        };
        run().map_err(|error| said(&error)).and_then(value)
    }

    fn load(&mut self, script: Vec<u8>) -> mlua::Result<Function> {
        let mut text = String::from_utf8(script).expect("a text");
        let name = Script::from_lua(text.as_str()).sha1().as_bytes().to_vec();
        for (from, to) in &self.patches {
            text = text.replace(from, to);
        }
        let function = self.lua.load(text).into_function()?;
        self.scripts.insert(name, function.clone());
        Ok(function)
    }
}

fn bytes(word: &Value) -> Vec<u8> {
    match word {
        Value::Integer(number) => number.to_string().into_bytes(),
        Value::String(text) => text.as_bytes().to_vec(),
        other => panic!("{other:?} as a word"),
    }
}

fn table(lua: &Lua, words: &[Value]) -> mlua::Result<Table> {
    let table = lua.create_table_with_capacity(words.len(), 0)?;
    for (at, word) in words.iter().enumerate() {
        match word {
            Value::String(text) => table.raw_set(at + 1, lua.create_string(text.as_bytes())?)?,
            word => table.raw_set(at + 1, lua.create_string(bytes(word))?)?,
        }
    }
    Ok(table)
}

/// As Redis converts what a script returns.
fn value(of: LuaValue) -> Reply {
    Ok(match of {
        LuaValue::Boolean(true) => Value::Integer(1),
        LuaValue::Integer(number) => Value::Integer(number),
        #[allow(clippy::cast_possible_truncation, reason = "Redis cuts the fraction off as well")]
        LuaValue::Number(number) => Value::Integer(number as i64),
        LuaValue::String(text) => Value::String(text.to_string_lossy().into()),
        LuaValue::Table(table) => {
            if let Ok(error) = table.raw_get::<String>("err") {
                return Err(error);
            }
            let mut list = Vec::new();
            for at in 1.. {
                match table.raw_get(at) {
                    Ok(LuaValue::Nil) | Err(_) => break,
                    Ok(one) => list.push(value(one)?),
                }
            }
            Value::Array(list)
        }
        _ => Value::Null,
    })
}

/// The server's answer if a command of a script has failed.
fn said(error: &mlua::Error) -> String {
    match error {
        mlua::Error::CallbackError { cause, .. } => said(cause),
        mlua::Error::RuntimeError(text) => text.clone(),
        other => panic!("a script fails: {other}"),
    }
}

/// `cjson.decode`.
#[expect(clippy::needless_pass_by_value, reason = "as Lua passes it")]
fn decode(lua: &Lua, text: mlua::String) -> mlua::Result<LuaValue> {
    let value = serde_json::from_slice(&text.as_bytes()).map_err(mlua::Error::external)?;
    from_json(lua, &value)
}

fn from_json(lua: &Lua, value: &Json) -> mlua::Result<LuaValue> {
    Ok(match value {
        Json::Null => LuaValue::NULL,
        Json::Bool(is) => LuaValue::Boolean(*is),
        Json::Number(number) => LuaValue::Number(number.as_f64().unwrap_or(f64::NAN)),
        Json::String(text) => LuaValue::String(lua.create_string(text)?),
        Json::Array(all) => {
            let all = all.iter().map(|one| from_json(lua, one));
            let all: mlua::Result<Vec<LuaValue>> = all.collect();
            LuaValue::Table(lua.create_sequence_from(all?)?)
        }
        Json::Object(all) => {
            let table = lua.create_table()?;
            for (name, one) in all {
                table.raw_set(name.as_str(), from_json(lua, one)?)?;
            }
            LuaValue::Table(table)
        }
    })
}
