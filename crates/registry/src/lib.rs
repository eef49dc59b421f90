//! What each resource is: preparation, columns, selectable fields.
