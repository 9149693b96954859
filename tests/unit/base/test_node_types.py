"""What is known of a class of nodes, whatever its pack declares."""

from headroom.base.node_types import NodeType, from_object_info


def test_types_of_v1_classes_that_trick_their_equality_are_read_by_their_text():
    class AnyType(str):
        def __ne__(self, other):
            return False

    found = from_object_info({"input": {"required": {"x": (AnyType("*"), {}), "y": (["a"],)}},
                              "output": (AnyType("*"), "MODEL"), "output_node": False})
    assert found == NodeType({"x": "*", "y": "COMBO"}, ("*", "MODEL"))
