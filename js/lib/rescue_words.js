// What is said about a prompt that ran out of memory and its second life.

export const RESCUE_WORDS = {
  en: {
    rescueTitle: "Out of memory",
    rescueButton: "Run again with OOM Guard",
    rescueClose: "Close",
    rescueRuns: "Out of memory: it runs again with OOM Guard",
    rescueTwice: "Out of memory in the second try as well",
    rescueFailed: "{node} ran out of {memory}",
    rescueAsked: ", asking for {size}",
    rescueHeld: "; loaded then: {models}.",
    rescueEnd: ".",
    rescueComma: ", ",
    rescueIncomplete: "Memory ran out in {node}, and ComfyUI went on without a part of a LoRA or ControlNet: the result is not what was asked for.",
    rescueSecond: "Second try of a run that had run out of memory.",
    rescueWas: "It was run again with OOM Guard.",
  },
  zh: {
    rescueTitle: "内存不足",
    rescueButton: "使用 OOM Guard 再次运行",
    rescueClose: "关闭",
    rescueRuns: "内存不足：正在使用 OOM Guard 再次运行",
    rescueTwice: "第二次运行同样内存不足",
    rescueFailed: "{node} 的{memory}不足",
    rescueAsked: "，请求 {size}",
    rescueHeld: "；当时已加载：{models}。",
    rescueEnd: "。",
    rescueComma: "、",
    rescueIncomplete: "{node} 运行时内存不足，ComfyUI 略过了 LoRA 或 ControlNet 的一部分继续运行：结果与要求不符。",
    rescueSecond: "这是内存不足之后的第二次运行。",
    rescueWas: "已使用 OOM Guard 再次运行。",
  },
};
