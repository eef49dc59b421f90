use crate::Value;
use crate::json::Duplicate;
pub fn to_value(text: &[u8], _d: &mut Vec<Duplicate>) -> Result<Value, String> {
    crate::json::parse(text).map_err(|e| e.to_string())
}
pub fn to_string(v: &Value) -> String {
    crate::json::write_to_string(v)
}
