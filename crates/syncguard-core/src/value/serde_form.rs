//! Serde for types whose serialised form differs from their fields.
//!
//! Each implementation repeats the `cfg` of the feature, because docs.rs shows the feature from there.

/// Serialises through `Display` and deserialises through `FromStr`.
macro_rules! as_text {
    ($type:ty, $form:literal) => {
        #[cfg(feature = "serde")]
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        #[cfg(feature = "serde")]
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Text;

                impl serde::de::Visitor<'_> for Text {
                    type Value = $type;

                    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        f.write_str($form)
                    }

                    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<$type, E> {
                        text.parse().map_err(E::custom)
                    }
                }

                deserializer.deserialize_str(Text)
            }
        }
    };
}

/// Serialises as a number of milliseconds, and checks the number when it is deserialised.
macro_rules! as_millis {
    ($type:ty) => {
        #[cfg(feature = "serde")]
        impl serde::Serialize for $type {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_u64(self.as_millis())
            }
        }

        #[cfg(feature = "serde")]
        impl<'de> serde::Deserialize<'de> for $type {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let millis = <u64 as serde::Deserialize>::deserialize(deserializer)?;
                <$type>::from_millis(millis).map_err(serde::de::Error::custom)
            }
        }
    };
}

pub(crate) use {as_millis, as_text};
