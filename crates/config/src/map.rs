//! Lists and maps of a configuration: they keep the order that was written, and bear what is wrong in them.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::{MapAccessDeserializer, SeqAccessDeserializer, StrDeserializer};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde::{Serialize, Serializer};

use crate::Path;

/// What the keys of a map are.
pub trait Keys {
    /// What the map is called in the reference.
    const KIND: &'static str;
    /// What a key has to match, for the schema; empty where anything will do.
    const PATTERN: &'static str;
}

/// Any text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnyKey {}
/// Names that the operator chooses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NameKey {}
/// Names of environment variables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VariableKey {}
/// Arguments of tools.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentKey {}
/// Items of servers: tools, prompts, resources.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ItemKey {}
/// Ids of scan rules.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuleKey {}

impl Keys for AnyKey {
    const KIND: &'static str = "";
    const PATTERN: &'static str = "";
}
impl Keys for NameKey {
    const KIND: &'static str = "map by name";
    const PATTERN: &'static str = "^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$";
}
impl Keys for VariableKey {
    const KIND: &'static str = "map by variable";
    const PATTERN: &'static str = "^[A-Za-z_][A-Za-z0-9_]{0,127}$";
}
impl Keys for ArgumentKey {
    const KIND: &'static str = "map by argument";
    const PATTERN: &'static str = "^.{1,256}$";
}
impl Keys for ItemKey {
    const KIND: &'static str = "map by item";
    const PATTERN: &'static str = "^.{1,256}$";
}
impl Keys for RuleKey {
    const KIND: &'static str = "map by rule";
    const PATTERN: &'static str = "^.{1,256}$";
}

/// A map whose keys are chosen, in the order in which it was written. Whether the keys are good is for `schema`.
pub struct Named<T, K = AnyKey>(pub Vec<(String, T)>, PhantomData<K>);

pub type ByName<T> = Named<T, NameKey>;
pub type ByVariable<T> = Named<T, VariableKey>;
pub type ByArgument<T> = Named<T, ArgumentKey>;
pub type ByItem<T> = Named<T, ItemKey>;
pub type ByRule<T> = Named<T, RuleKey>;

impl<T, K> Named<T, K> {
    pub fn iter(&self) -> impl Iterator<Item = (&str, &T)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T, K> Default for Named<T, K> {
    fn default() -> Named<T, K> {
        Named(Vec::new(), PhantomData)
    }
}

impl<T: Clone, K> Clone for Named<T, K> {
    fn clone(&self) -> Named<T, K> {
        Named(self.0.clone(), PhantomData)
    }
}

impl<T: PartialEq, K> PartialEq for Named<T, K> {
    fn eq(&self, other: &Named<T, K>) -> bool {
        self.0 == other.0
    }
}

impl<T: fmt::Debug, K> fmt::Debug for Named<T, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl<'de, T: Deserialize<'de>, K> Deserialize<'de> for Named<T, K> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Named<T, K>, D::Error> {
        struct Read<T, K>(PhantomData<(T, K)>);
        impl<'de, T: Deserialize<'de>, K> Visitor<'de> for Read<T, K> {
            type Value = Named<T, K>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Named<T, K>, A::Error> {
                let mut all = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    all.push(entry);
                }
                Ok(Named(all, PhantomData))
            }
        }
        from.deserialize_map(Read(PhantomData))
    }
}

impl<T: JsonSchema, K: Keys> JsonSchema for Named<T, K> {
    fn schema_name() -> Cow<'static, str> {
        format!("MapOf{}", T::schema_name()).into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let of = generator.subschema_for::<T>();
        if K::KIND.is_empty() {
            return json_schema!({ "type": "object", "additionalProperties": of });
        }
        json_schema!({
            "type": "object",
            "propertyNames": { "pattern": K::PATTERN },
            "additionalProperties": of,
            "x-kind": K::KIND,
        })
    }
}

/// A list. An element that could not be read is left out, and the others keep their places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct List<T>(Vec<Option<T>>);

impl<T> List<T> {
    /// The elements with their places.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &T)> {
        let places = self.0.iter().enumerate();
        places.filter_map(|(i, value)| Some((i, value.as_ref()?)))
    }

    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flatten()
    }

    /// Whether nothing was listed, be it good or not.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl<T> Default for List<T> {
    fn default() -> List<T> {
        List(Vec::new())
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<List<T>, D::Error> {
        Vec::deserialize(from).map(List)
    }
}

/// A default list is an empty one, whatever would stand in it.
impl<T> Serialize for List<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq::<[(); 0]>([])
    }
}

impl<T: JsonSchema> JsonSchema for List<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("ListOf{}", T::schema_name()).into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let of = generator.subschema_for::<T>();
        json_schema!({ "type": "array", "items": of })
    }
}

/// A list, or one value alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OneOrMore<T> {
    list: List<T>,
    is_list: bool,
}

impl<T> OneOrMore<T> {
    /// One value alone.
    pub fn one(value: T) -> OneOrMore<T> {
        OneOrMore {
            list: List(vec![Some(value)]),
            is_list: false,
        }
    }

    /// The values with their keys, where the whole is at this key.
    pub fn at(&self, key: &Path) -> impl Iterator<Item = (Path, &T)> {
        self.iter().map(|(i, value)| {
            let key = i.map_or_else(|| key.clone(), |i| key.index(i));
            (key, value)
        })
    }

    pub fn iter(&self) -> impl Iterator<Item = (Option<usize>, &T)> {
        let is_list = self.is_list;
        let values = self.list.iter();
        values.map(move |(i, value)| (is_list.then_some(i), value))
    }

    pub fn values(&self) -> impl Iterator<Item = &T> {
        self.list.values()
    }

    /// Whether an empty list was written.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for OneOrMore<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<OneOrMore<T>, D::Error> {
        struct Read<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Read<T> {
            type Value = OneOrMore<T>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("one value, or a list")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<OneOrMore<T>, E> {
                let one = T::deserialize(StrDeserializer::new(text))?;
                let list = List(vec![Some(one)]);
                let is_list = false;
                Ok(OneOrMore { list, is_list })
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<OneOrMore<T>, A::Error> {
                let one = T::deserialize(MapAccessDeserializer::new(map))?;
                let list = List(vec![Some(one)]);
                let is_list = false;
                Ok(OneOrMore { list, is_list })
            }

            fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<OneOrMore<T>, A::Error> {
                let list = List::deserialize(SeqAccessDeserializer::new(seq))?;
                let is_list = true;
                Ok(OneOrMore { list, is_list })
            }
        }
        from.deserialize_any(Read(PhantomData))
    }
}

impl<T: Serialize> Serialize for OneOrMore<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match (self.is_list, self.list.values().next()) {
            (false, Some(one)) => one.serialize(to),
            _ => to.collect_seq(self.list.values()),
        }
    }
}

impl<T: JsonSchema> JsonSchema for OneOrMore<T> {
    fn schema_name() -> Cow<'static, str> {
        format!("OneOrMore{}", T::schema_name()).into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<T>();
        json_schema!({ "anyOf": [one, { "type": "array", "items": one, "minItems": 1 }] })
    }
}

/// One value alone, or a map that says more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OneOr<T, M> {
    One(T),
    Map(M),
}

impl<'de, T: Deserialize<'de>, M: Deserialize<'de>> Deserialize<'de> for OneOr<T, M> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<OneOr<T, M>, D::Error> {
        struct Read<T, M>(PhantomData<(T, M)>);
        impl<'de, T: Deserialize<'de>, M: Deserialize<'de>> Visitor<'de> for Read<T, M> {
            type Value = OneOr<T, M>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("one value, or a map")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<OneOr<T, M>, E> {
                T::deserialize(StrDeserializer::new(text)).map(OneOr::One)
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<OneOr<T, M>, A::Error> {
                M::deserialize(MapAccessDeserializer::new(map)).map(OneOr::Map)
            }
        }
        from.deserialize_any(Read(PhantomData))
    }
}

/// A default is one value, whatever a map would say.
impl<T: Serialize, M> Serialize for OneOr<T, M> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        match self {
            OneOr::One(one) => one.serialize(to),
            OneOr::Map(_) => to.serialize_none(),
        }
    }
}

impl<T: JsonSchema, M: JsonSchema> JsonSchema for OneOr<T, M> {
    fn schema_name() -> Cow<'static, str> {
        format!("{}Or{}", T::schema_name(), M::schema_name()).into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let one = generator.subschema_for::<T>();
        let map = generator.subschema_for::<M>();
        json_schema!({ "anyOf": [one, map] })
    }
}
