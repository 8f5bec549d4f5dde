//! Methods that set one field.

/// Writes public methods that set a field and return the changed value, each from a line below its documentation:
///
/// - `with_name(field: Type);` sets the field, and `const with_name(field: Type);` does so in a `const fn`,
/// - `with_name(field: Some(Type));` sets a field that is an `Option`,
/// - `with_name(argument: Type) in field;` sets the field to what its own method of this name returns.
#[doc(hidden)]
#[macro_export]
macro_rules! setters {
    () => {};
    ($(#[$about:meta])* $name:ident($field:ident: Some($type:ty)); $($rest:tt)*) => {
        $(#[$about])*
        #[must_use = "it returns the changed value"]
        pub fn $name(mut self, $field: $type) -> Self {
            self.$field = ::core::option::Option::Some($field);
            self
        }
        $crate::setters! { $($rest)* }
    };
    ($(#[$about:meta])* $name:ident($argument:ident: $type:ty) in $field:ident; $($rest:tt)*) => {
        $(#[$about])*
        #[must_use = "it returns the changed value"]
        pub fn $name(mut self, $argument: $type) -> Self {
            self.$field = self.$field.$name($argument);
            self
        }
        $crate::setters! { $($rest)* }
    };
    ($(#[$about:meta])* const $name:ident($field:ident: $type:ty); $($rest:tt)*) => {
        $(#[$about])*
        #[must_use = "it returns the changed value"]
        pub const fn $name(mut self, $field: $type) -> Self {
            self.$field = $field;
            self
        }
        $crate::setters! { $($rest)* }
    };
    ($(#[$about:meta])* $name:ident($field:ident: $type:ty); $($rest:tt)*) => {
        $(#[$about])*
        #[must_use = "it returns the changed value"]
        pub fn $name(mut self, $field: $type) -> Self {
            self.$field = $field;
            self
        }
        $crate::setters! { $($rest)* }
    };
}
